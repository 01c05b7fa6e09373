"""The screen of `tandem quota`."""

from tandem.aws.quota import Answer
from tandem.aws.session import Account
from tandem.terminal import in_markup, new_table, open_console, say

STYLES = {
    "ok": "green",
    "short": "bold red",
    "short at max": "bold red",
    "short while replacing": "yellow",
    "unknown": "yellow",
}

QUOTA_FOR_BOTH = (
    "The stack starts, but updating or replacing its nodes may fail. Raise the quota, or set `replacement: "
    "delete-first` under `gpu-nodes`, which needs no quota for a second group."
)


def show(answer: Answer, stack: str, account: Account) -> None:
    """Quotas and needs, then other problems, then the commands that help."""
    console = open_console()
    table = new_table(f"Quotas for `{in_markup(stack)}` in account {account.id} ({account.region})")
    table.add_column("quota")
    for column in ("limit", "used", "needed", "at max", "replacing"):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    for check in answer.checks:
        need = check.need
        limit = "?" if check.limit is None else f"{check.limit:,.0f}"
        verdict = f"[{STYLES[check.verdict]}]{check.verdict}[/]"
        counts = [f"{count:,}" for count in (check.used, need.now, need.most, need.replacing)]
        table.add_row(in_markup(check.title), limit, *counts, verdict)
    table.caption = "used: by everything except this stack; replacing: during node updates"
    table.caption_justify = "left"
    console.print(table)
    for problem in answer.problems:
        say(console, f"error: {problem}")
    for warning in answer.warnings:
        say(console, f"warning: {warning}")
    if any(check.verdict == "short while replacing" for check in answer.checks):
        say(console, f"warning: {QUOTA_FOR_BOTH}")
    if short := [check for check in answer.checks if check.verdict.startswith("short")]:
        console.print("\nRequest an increase:")
        for check in short:
            # Never folded: users copy it.
            console.print(f"  {in_markup(check.command(account.region))}", soft_wrap=True)
