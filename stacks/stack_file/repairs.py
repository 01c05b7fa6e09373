"""Validates the values of a stack file, and puts stand-ins for unreadable ones, so that the rest can be judged."""

import copy
import json
from collections.abc import Collection, Iterator
from typing import Any

from pydantic import ValidationError

from sharing.problems import Problem, near
from stacks.stack_file import hints
from stacks.stack_file.shape import StackConfig
from stacks.stack_file.yaml import as_json

MOST_PASSES = 5
"""A repaired mistake can uncover the next (an unknown mode hides a wrong number of replicas); no more than these."""

STAND_INS: dict[str, Any] = {
    "aws:region": "us-east-1",
    "sharing": {"mode": "timeslice"},
    "sharing.mode": "timeslice",
    "sharing.layout[]": {"profile": "1g.5gb"},
    "sharing.layout[].profile": "1g.5gb",
    "models": [{"name": "llama3.2:1b"}],
    "models[]": {"name": "llama3.2:1b"},
    "models[].name": "llama3.2:1b",
    "gpu-nodes.instance-types[]": "g4dn.xlarge",
    "gpu-nodes[]": {"name": "gpu"},
    "gpu-nodes[].name": "gpu",
    "gpu-nodes[].instance-types[]": "g4dn.xlarge",
    "gpu-nodes[].sharing.mode": "timeslice",
    "cluster.system-nodes.instance-types[]": "t3.medium",
    "cluster.public-access-cidrs[]": "192.0.2.1/32",
    "aws:assumeRoles[]": {"roleArn": "arn:aws:iam::111122223333:role/ci"},
    "aws:assumeRoles[].roleArn": "arn:aws:iam::111122223333:role/ci",
    "aws:allowedAccountIds[]": "111122223333",
    "cluster.admins[]": "arn:aws:iam::111122223333:role/ci",
    "cluster.zone-names[]": "us-east-1a",
    "models-clients.namespaces[]": "default",
}
"""What is put for an unreadable value that has no default, only to be able to judge the rest of the file."""


def validate(raw: dict[str, Any], unread: Collection[str]) -> tuple[StackConfig, list[Problem], set[str]]:
    """The config with stand-ins, its mistakes, and what probably stands in the file under a misspelt key."""
    values = json.loads(as_json(raw))
    found: dict[str, Problem] = {}
    doubtful = set(unread)
    for loc in list(_encrypted(values)):
        way_out = "Set it again without `--secret`: it is none."
        found[hints.where(loc)] = Problem(hints.where(loc), "an encrypted value", "must be readable", way_out)
        _repair(values, loc)
    for _ in range(MOST_PASSES):
        try:
            config = StackConfig.model_validate_json(as_json(values), by_name=False, by_alias=True)
        except ValidationError as error:
            details = [(detail, hints.place(detail)) for detail in error.errors(include_url=False)]
        else:
            # What a misspelt key may have been meant to be is not missing.
            told_once = [each for each in found.values() if each.rule != hints.MISSING or each.path not in doubtful]
            return config, told_once, doubtful
        for detail, loc in details:
            if detail["type"] == "extra_forbidden":
                doubtful |= {hints.where((*loc[:-1], key)) for key in near(str(loc[-1]), hints.keys(loc[:-1]))}
            found.setdefault(hints.where(loc), hints.problem(detail, loc))
        for _, loc in sorted(details, key=lambda pair: [str(part) for part in pair[1]], reverse=True):
            _repair(values, loc)
    raise AssertionError(f"stand-ins are mistakes themselves: {sorted(found)}")


def _encrypted(value: object, loc: hints.Loc = ()) -> Iterator[hints.Loc]:
    """Where Pulumi keeps secrets: `{secure: …}`, as `pulumi config set --secret` writes it."""
    if isinstance(value, dict) and [*value] == ["secure"] and isinstance(value["secure"], str):
        yield loc
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _encrypted(item, (*loc, key))


def _repair(values: dict[str, Any], loc: hints.Loc) -> None:
    """Puts a stand-in at `loc`, or takes the value away so that its default holds."""
    parent: Any = values
    for part in loc[:-1]:
        if isinstance(parent, dict) and part not in parent:
            return
        parent = parent[part]
    if (pattern := hints.pattern(loc)) in STAND_INS:
        parent[loc[-1]] = copy.deepcopy(STAND_INS[pattern])
    elif isinstance(parent, dict):
        parent.pop(loc[-1], None)
