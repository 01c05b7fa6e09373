"""What all tests share: `--regen` for goldens, and the last line that says which tiers ran."""

from collections import Counter, defaultdict

import pytest

TIERS = {
    "sharing": "rules",
    "stacks": "rules",
    "components": "program",
    "program": "program",
    "sandbox": "program",
    "tandem": "program",
    "engine": "engine",
    "ollama": "ollama",
}
"""The tier of each folder; what lies in `tests/` itself belongs to `program`."""
OUTCOMES = ("passed", "failed", "skipped")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regen", action="store_true", help="write the goldens anew instead of comparing with them")


@pytest.fixture(scope="session")
def regen(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("--regen"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: dict[str, set[str]] = defaultdict(set)
    for outcome in OUTCOMES:
        for report in terminalreporter.stats.get(outcome, []):
            parts = report.nodeid.split("::")[0].split("/")
            tier = TIERS.get(parts[1], "program") if len(parts) > 2 else "program"
            counts[tier][outcome] += 1
            if outcome == "skipped" and isinstance(report.longrepr, tuple):
                reasons[tier].add(report.longrepr[2].removeprefix("Skipped: "))
    told = []
    for tier, outcomes in sorted(counts.items(), reverse=True):
        numbers = ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in OUTCOMES if outcomes[outcome])
        why = f" ({'; '.join(sorted(reasons[tier]))})" if reasons[tier] else ""
        told.append(f"{tier} {numbers}{why}")
    if told:
        terminalreporter.write_line(f"tiers: {' | '.join(told)}")
