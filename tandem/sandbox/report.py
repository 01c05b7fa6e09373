"""The output of `tandem sandbox … --json`: the comparison of state and cloud as one object."""

from typing import Any

from tandem.sandbox.state import Findings, Managed, Unfinished, name_of

SCHEMA_VERSION = 1


def as_report(stack: str, found: Findings) -> dict[str, Any]:
    """The object; each resource that needs a repair has the command for it, or belongs to one that has."""
    return {
        "schema_version": SCHEMA_VERSION,
        "stack": stack,
        "agree": found.agree,
        "complete": not found.completes,
        "resources": found.resources,
        "things": found.entities,
        "unfinished": [_unfinished(one) for one in found.unfinished],
        "orphans": [
            {
                "type": orphan.entity.type,
                "name": orphan.entity.name,
                "id": orphan.entity.id,
                "made_by": orphan.entity.made_by,
                "repair": orphan.repair,
            }
            for orphan in found.orphans
        ],
        "missing": [_missing(one) for one in found.missing],
        "repairs": repairs(stack, found),
    }


def repairs(stack: str, found: Findings) -> list[str]:
    """The commands that make state and cloud agree and complete the stack, in this order."""
    refresh = f"tandem sandbox refresh {stack}"
    finish = [refresh] if found.finishes == "refresh" else []
    lost = [refresh] if found.missing else []
    # The last, because `up` refuses while there are orphans.
    complete = [f"tandem sandbox {found.completes} {stack}"] if found.completes else []
    return list(dict.fromkeys([*finish, *(orphan.repair for orphan in found.orphans), *lost, *complete]))


def _unfinished(one: Unfinished) -> dict[str, str]:
    return {"operation": one.operation, "type": one.type, "name": name_of(one.urn), "urn": one.urn}


def _missing(one: Managed) -> dict[str, str]:
    return {"type": one.type, "name": one.name, "id": one.id, "urn": one.urn}
