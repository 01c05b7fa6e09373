"""The result of a run, as a page that is committed."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, get_args

from tests.kills.trials import OPERATIONS, Kind

WHAT = {
    "pulumi": "`pulumi` alone",
    "providers": "the providers alone (`tandem`)",
    "everything": "everything",
    "hosts": "the language hosts alone",
}


def summary(seed: int, records: Sequence[dict[str, Any]], *, total: int) -> str:
    """The page: how many trials of each kind recovered, and the faults of the others."""
    dates, commits = ({record[key] for record in records} for key in ("date", "commit"))
    done = len(records)
    lines = [
        "# Kills",
        "",
        f"`make test-kills` writes this page. Seed {seed}; {done} of {total} trials; "
        f"{', '.join(sorted(dates))}; commit {', '.join(sorted(commits))}.",
        "",
        "Each trial kills a command of `tandem sandbox` with SIGKILL and follows `status` word for word. It looks",
        "for what is lost, duplicated or left, also after a final `destroy`. Cells say how many trials recovered.",
        "",
        f"| killed | {' | '.join(OPERATIONS)} |",
        f"|---|{'---|' * len(OPERATIONS)}",
    ]
    for kind in get_args(Kind):
        cells = [
            _cell([record for record in records if (record["kind"], record["operation"]) == (kind, op)])
            for op in OPERATIONS
        ]
        lines.append(f"| {WHAT[kind]} | {' | '.join(cells)} |")
    verbs = Counter(command.split()[0] for record in records for command in record["followed"])
    lines += ["", f"Commands that `status` named: {', '.join(f'{verb} {n}' for verb, n in sorted(verbs.items()))}."]
    lines += [f"`destroy` was run again in {sum(record['failed'] > 0 for record in records)} trials."]
    faulty = [record for record in records if record["faults"]]
    lines += ["", "Faults:" if faulty else "No fault was found."]
    lines += [f"- {record['what']}: {'; '.join(record['faults'])}" for record in faulty]
    return "\n".join(lines) + "\n"


def _cell(records: Sequence[dict[str, Any]]) -> str:
    killed = [record for record in records if record["killed"]]
    fine = sum(not record["faults"] for record in killed)
    late = len(records) - len(killed)
    return f"{fine} of {len(killed)}{f' ({late} ended before)' if late else ''}" if records else "–"
