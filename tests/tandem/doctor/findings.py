"""The findings of a check, by the check's name."""

from tandem.doctor import checks
from tandem.doctor.case import Case
from tandem.doctor.finding import Finding


def findings(name: str, case: Case) -> list[Finding]:
    (check,) = [check for check in checks.CHECKS if check.name == name]
    return checks.findings(check, case)


def finding(name: str, case: Case) -> Finding:
    """The only finding of a check."""
    (found,) = findings(name, case)
    return found


def summary(name: str, case: Case) -> list[tuple[str, str]]:
    """Verdicts and texts of the findings."""
    return [(found.verdict, found.text) for found in findings(name, case)]
