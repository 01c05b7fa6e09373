"""Every key of a stack file with each kind of wrong value: each message has a place, a rule and a fix.

`broken_files.yaml` has the messages of each kind, and `docs/stack.schema.json` the bounds of every key.
"""

import copy
import datetime
import json
import re
from typing import Any

import pytest
import yaml

from sharing.problems import Problem
from stacks.stack_file.form_errors import fields
from stacks.stack_file.judge import judge
from stacks.stack_file.yaml import Source
from tests.descriptions import OWN_FILE
from tests.stacks.scalars import scalars

WRONG: tuple[object, ...] = (None, -1, 10**9, "no such", True, [], {}, {"no-such": 1})
PROVIDER = {
    "aws:region": "us-east-1",
    "aws:assumeRoles": [{"roleArn": "arn:aws:iam::111122223333:role/ci"}],
    "aws:defaultTags": {"tags": {"team": "ml"}},
}
LAYOUT = [{"profile": "1g.24gb", "count": 2}]
MODES: dict[str, dict[str, Any]] = {
    "exclusive": {"mode": "exclusive"},
    "timeslice": {"mode": "timeslice", "replicas": 2},
    "mps": {"mode": "mps", "replicas": 2},
    "mig": {"mode": "mig", "layout": LAYOUT},
}
GOOD = {
    "aws:region": "us-east-1",
    "roleArn": "arn:aws:iam::111122223333:role/ci",
    "duration": "2h",
    "allowedAccountIds": "111122223333",
    "models[].name": "llama2:7b",
    "gpu-nodes.instance-types": "g4dn.xlarge",
    "gpu-nodes[].instance-types": "g4dn.xlarge",
    "system-nodes.instance-types": "t3.medium",
    "kubernetes": "1.36",
    "cluster.cidr": "10.0.0.0/16",
    "public-access-cidrs": "203.0.113.7/32",
    "zone-names": "us-east-1a",
    "admins": "arn:aws:iam::111122223333:role/ci",
    "vpc.id": "vpc-0a1b2c3d",
    "subnets": "subnet-0a1b2c3d",
    "security-groups": "sg-0a1b2c3d",
    "existing.name": "platform",
    "park.schedule": "0 20 * * MON-FRI",
    "park.wake": "0 8 * * MON-FRI",
    "park.timezone": "Europe/Paris",
    "alert.emails": "ops@example.com",
    "admin-email": "ops@example.com",
}
"""The beginning of a valid value, by the end of its path; any other text may be `a`."""
PARK = {"schedule": "0 20 * * MON-FRI", "wake": "0 8 * * MON-FRI", "timezone": "Europe/Paris"}
EXISTING: dict[str, dict[str, Any]] = {
    "vpc": {"id": "vpc-0a1b2c3d", "subnets": ["subnet-0a1b2c3d", "subnet-0d3c2b1a"]},
    "existing": {"name": "platform"},
}
MODEL = {"name": "llama2:7b", "gguf": OWN_FILE}


def stack(mode: str, *, listed: bool) -> dict[str, Any]:
    """A valid stack file with every section, in its plain form or with a list of pools."""
    pool: dict[str, Any] = {"instance-types": ["g7e.2xlarge"], "max": 1}
    named = [{**pool, "name": "fast", "sharing": MODES[mode]}, {**pool, "name": "other"}]
    return {
        **copy.deepcopy(PROVIDER),
        "sharing": copy.deepcopy(MODES[mode]),
        "gpu-nodes": copy.deepcopy(named) if listed else pool,
        "models": [{**MODEL, **({"pool": "fast"} if listed else {})}],
        "models-clients": {"namespaces": ["chat"], "labels": {"llm-client": "yes"}},
        "ui": {"enabled": True, "admin-email": "ops@example.com"},
        "monitoring": {"store": "builtin", "service-monitors": True},
        "scale-to-zero": {"enabled": False, "idle-minutes": 15, "cold-requests": "wait"},
        "proof": True,
        "cluster": {"nat": "none", "public-access-cidrs": ["0.0.0.0/0"], "system-nodes": {"count": 2}},
        "budget": {"max-usd-per-hour": 9.0, "alert": {"max-usd": 9000, "emails": ["ops@example.com"]}},
        "tags": {"team": "ml"},
    }


def with_value(path: str, value: object) -> dict[str, Any]:
    """The stack with one value changed; if the path names a mode, the stack has that mode."""
    found = re.search(rf"sharing\.({'|'.join(MODES)})\.", path)
    mode = found[1] if found else "timeslice"
    made = stack(mode, listed="gpu-nodes[]" in path)
    if path.startswith("park"):
        made["park"] = dict(PARK)  # Elsewhere it would refuse `desired` and `min`.
    for section in EXISTING:
        if path.startswith(f"cluster.{section}"):
            made["cluster"] = {section: dict(EXISTING[section])}  # Each excludes the settings of a new one.
    *above, last = path.replace(f"sharing.{mode}.", "sharing.").replace("[]", ".[]").split(".")
    place: Any = made
    for part in above:
        place = place[0] if part == "[]" else place.setdefault(part, copy.deepcopy(LAYOUT) if part == "layout" else {})
    if last == "[]":
        place[0] = value
    elif value is None:
        place.pop(last, None)
    else:
        place[last] = value
    return made


def problems(values: dict[str, Any]) -> tuple[Problem, ...]:
    """All errors of the file."""
    provider = {key: value for key, value in values.items() if key.startswith("aws:")}
    sections = {key: value for key, value in values.items() if key not in provider}
    return judge(Source(sections, provider), "Pulumi.dev.yaml", today=datetime.date(2026, 11, 22)).problems


def said(values: dict[str, Any]) -> list[str]:
    """The same as messages."""
    return [*map(str, problems(values))]


ITEMS: dict[str, list[Any]] = {
    "aws:assumeRoles": [{"roleArn": "arn:aws:iam::111122223333:role/ci"}],
    "models": [MODEL],
    "gpu-nodes": [{"name": "fast", "instance-types": ["g7e.2xlarge"], "sharing": MODES["mig"]}],
    "layout": LAYOUT,
    "spill": ["other"],
    "zone-names": ["us-east-1a", "us-east-1b"],
}
LISTS = [path for path, field in fields().items() if "list[" in str(field.annotation).lower()]


@pytest.mark.real_world(
    behaviour="`pulumi config set --path` stores a list as text; only whole numbers and truth values are more",
    source="pulumi 3.260 sdk/go/common/resource/config/object.go, coerce",
)
@pytest.mark.usefixtures("without_advice")
@pytest.mark.parametrize("path", LISTS)
def test_a_list_may_be_written_as_json_text(path: str) -> None:
    good = [good for end, good in GOOD.items() if path.endswith(end)] or ["a"]
    value = next((items for end, items in ITEMS.items() if path.endswith(end)), good[:1])
    as_list = said(with_value(path, value))
    assert said(with_value(path, json.dumps(value))) == as_list
    assert not any("must be a list" in line for line in as_list)


@pytest.mark.real_world(
    behaviour="`pulumi config set --path` stores 1.5 as text, unless `--type float` is given",
    source="pulumi 3.260 sdk/go/common/resource/config/object.go, coerce",
)
@pytest.mark.usefixtures("without_advice")
@pytest.mark.parametrize("path", [path for path, value in scalars().items() if isinstance(value, float)])
def test_a_number_with_a_point_may_be_text(path: str) -> None:
    path = path.replace("[0]", "[]")
    assert said(with_value(path, "1.5")) == said(with_value(path, 1.5))


@pytest.mark.usefixtures("without_advice")
@pytest.mark.parametrize("path", LISTS)
def test_the_advised_list_is_a_list(path: str) -> None:
    key, advised = path.rpartition(".")[2], {}
    for text in ("x", '["x"', "['x']", "x, y", "x y", '"x"', "[x, y]"):
        for line in said(with_value(path, text)):
            if f"{path}: must be a list" in line.replace("[0]", "[]"):
                [advice] = re.findall(r"`([^`]*: \[[^`]*)`", line)
                advised[advice] = yaml.safe_load(advice.removeprefix("tandem:"))[key.removeprefix("tandem:")]
    for value in advised.values():
        assert not any("must be a list" in line for line in said(with_value(path, value))), (path, value)


@pytest.mark.slow
def test_no_text_of_a_stack_file_controls_the_terminal() -> None:
    """The real `pulumi` prints these messages unfiltered. The text is a value, in a list, and a key."""
    for path in fields():
        evil = next((good for end, good in GOOD.items() if path.endswith(end)), "a") + "\x1b]0;owned\x07"
        for value in (evil, [evil], {evil: "ml"}, {"team": evil}):
            messages = "".join(said(with_value(path, value)))
            assert messages, (path, value)
            assert "\x1b" not in messages


def key_of(path: str) -> str:
    """The key as a message names it: that of the first pool, model or slice, without the sharing mode."""
    return re.sub(rf"sharing\.({'|'.join(MODES)})\.", "sharing.", path).replace("[]", "[0]")


@pytest.mark.slow
@pytest.mark.parametrize("path", fields())
def test_a_wrong_value_is_refused_at_its_place_with_a_rule_and_a_fix(path: str) -> None:
    key = key_of(path)
    for value in WRONG:
        wrong = problems(with_value(path, value))
        assert all(problem.rule and re.search(r"[.?]$", problem.fix) for problem in wrong), wrong
        of_form = [problem for problem in wrong if problem.rule.startswith(("must be ", "is missing", "unknown "))]
        elsewhere = [problem for problem in of_form if not problem.is_within([key])]
        assert not elsewhere, (value, [str(problem) for problem in elsewhere])
    of_each_type: list[object] = [-1, True, [], {"no-such": 1}]
    refused = [value for value in of_each_type if problems(with_value(path, value))]
    assert len(refused) >= 3, "at most one of these types is right"
