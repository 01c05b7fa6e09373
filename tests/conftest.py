"""Shared by all tests: `--regen` for goldens, and the last line, which says which tiers ran."""

import gc
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

# Examples have no deadline: on a busy machine any deadline would sometimes be wrong. They are others in each run.
settings.register_profile("tandem", deadline=None, max_examples=50)
settings.load_profile("tandem")

OFFLINE = "TANDEM_OFFLINE"
"""`stacks.model_files.web`, which is not imported before a test needs it."""
TIERS = {
    "browser": "browser",
    "cluster": "cluster",
    "sharing": "rules",
    "stacks": "rules",
    "components": "program",
    "policy": "program",
    "plugin": "program",
    "program": "program",
    "sandbox": "program",
    "tandem": "program",
    "engine": "engine",
    "ollama": "ollama",
    "live": "live",
    "scale": "scale",
    "wheel": "wheel",
    "gpu": "program",
}
"""The tier of each folder; files directly in `tests/` belong to `program`."""
Golden = Callable[[str, str], None]
"""The fixture `golden`: takes the name of a file and its expected text."""
CUDA = Path(__file__).parent / "components" / "libcuda.c"
OUTCOMES = ("passed", "failed", "skipped")
ON_REQUEST = {
    "browser": "make test-browser",
    "cluster": "make test-cluster",
    "engine": "make test-engine",
    "live": "make test-live",
    "ollama": "make test-ollama",
    "scale": "make test-scale",
    "wheel": "make test-wheel",
}
"""Folders that run only if they are named, since they take minutes, with the command that runs each."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regen", action="store_true", help="write the goldens again instead of comparing with them")
    parser.addoption("--charts", metavar="FOLDER", help="take the charts from folders in here, not their repositories")


def pytest_configure(config: pytest.Config) -> None:
    # No test looks a model up in a registry, and neither does a program that a test starts. Those that bring their own
    # server unset it.
    os.environ[OFFLINE] = "1"
    # jsonschema imports it where it finds it: half a second, for formats that no schema here has.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # None: there is no such module
    # Off until everything is imported: garbage collection between thousands of new classes finds nothing.
    gc.disable()
    # As at a terminal, for programs that tests start and interrupt: a background process and its children would
    # ignore Ctrl-C.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    # Later collections skip all imported objects: one takes milliseconds, not half a second.
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path in _left_alone(config) else None


@cache
def _left_alone(config: pytest.Config) -> dict[Path, str]:
    """Folders of `ON_REQUEST` that the command line does not name, entirely or in part, with their commands."""
    named = {config.invocation_params.dir / argument.partition("::")[0] for argument in config.args}
    folders = {config.rootpath / "tests" / folder: how for folder, how in ON_REQUEST.items()}
    return {
        folder: how
        for folder, how in folders.items()
        if not any(path == folder or folder in path.parents for path in named)
    }


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a fake libcuda.so.1."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler (`cc`) to build a fake driver")
    folder = tmp_path_factory.mktemp("driver")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "libcuda.so.1", CUDA], check=True)
    return folder


@pytest.fixture
def without_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    """For stack files with any values, of which some do not fit: the search for advice takes nearly all of the time."""
    monkeypatch.setattr("sharing.verdict.full.advise", lambda *_, **__: [])


@pytest.fixture(scope="session")
def regen(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("--regen"))


@pytest.fixture
def golden(regen: bool) -> Golden:
    """Compares a text with the whole file of that name in `tests/golden`; with `--regen` it writes the file first."""

    def compare(name: str, said: str) -> None:
        path = Path(__file__).parent / "golden" / name
        if regen:
            path.parent.mkdir(exist_ok=True)
            path.write_text(said, encoding="utf-8")
        assert said == path.read_text(encoding="utf-8")

    return compare


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: dict[str, set[str]] = defaultdict(set)
    for outcome in OUTCOMES:
        for report in terminalreporter.stats.get(outcome, []):
            parts = report.nodeid.split("::")[0].split("/")
            tier = TIERS.get(parts[1], "program") if len(parts) > 2 else "program"
            counts[tier][outcome] += 1
            if outcome == "skipped" and isinstance(report.longrepr, tuple):
                reasons[tier].add(report.longrepr[2].removeprefix("Skipped: "))
    shown = []
    for tier, outcomes in sorted(counts.items(), reverse=True):
        numbers = ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in OUTCOMES if outcomes[outcome])
        why = f" ({'; '.join(sorted(reasons[tier]))})" if reasons[tier] else ""
        shown.append(f"{tier} {numbers}{why}")
    if shown and (config.rootpath / "tests") in {config.invocation_params.dir / arg for arg in config.args}:
        shown += [f"{TIERS[folder.name]} not asked for ({how})" for folder, how in _left_alone(config).items()]
        if config.option.markexpr == "not slow":
            shown.append("slow not asked for (make test-slow)")
        # It needs no pytest: the tests in tests/gpu test its parts.
        shown.append("gpu not asked for (make test-gpu)")
    if shown and (seed := config.getoption("randomly_seed", None)) is not None:
        shown.append(f"order of seed {seed} (make test-random SEED={seed})")
    if shown:
        terminalreporter.write_line(f"tiers: {' | '.join(shown)}")
