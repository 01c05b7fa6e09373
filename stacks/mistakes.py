"""Turns what is wrong with a stack file into problems: all of them at once, each with its way out."""

import copy
import datetime
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sharing.assessment import Assessment, assess
from sharing.models import DEFAULT_TAG, full_name, models
from sharing.paths import touches
from sharing.prices import Book
from sharing.principals import judge_principal
from sharing.problems import Problem, did_you_mean, near, told
from stacks import source, wording
from stacks.clients import find_repetitions, warn_of_clients
from stacks.model_settings import OWN_KEYS, OWN_NUMBERS
from stacks.provider_keys import HONOURED, refuse_keys
from stacks.shape import FEWEST_ZONES, SECTIONS, ClusterSettings, GpuNodes, StackConfig, pool_name

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


class RefusedError(Exception):
    """A stack that must not be created; says every reason, and carries them as `problems`."""

    def __init__(self, problems: tuple[Problem, ...], name: str) -> None:
        self.problems = problems
        super().__init__("\n".join(told(name, "mistake", problems)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A stack file, read as far as it can be."""

    name: str
    config: StackConfig
    """With stand-ins for what could not be read: to be used only when there are no problems."""
    problems: tuple[Problem, ...]
    assessment: Assessment

    def strict(self) -> "Reading":
        """The same file, refused also for what could not be judged."""
        unjudged = tuple(warning for warning in self.assessment.warnings if not warning.judged)
        judged = tuple(warning for warning in self.assessment.warnings if warning.judged)
        assessment = replace(self.assessment, warnings=judged)
        return replace(self, problems=(*self.problems, *unjudged), assessment=assessment)

    def accepted(self) -> StackConfig:
        """The config; raises `RefusedError` with every problem when there is one."""
        if self.problems:
            raise RefusedError(self.problems, self.name)
        return self.config


def read_file(path: Path, today: datetime.date | None = None, book: Book | None = None) -> Reading:
    """Reads and judges the stack file at `path`, at the prices of `book` where there is one.

    Raises `stacks.source.UnreadableError` when it is no YAML.
    """
    found = source.read(path, SECTIONS)
    return read_values(found.sections, found.provider, path.name, found.problems, today, found.unread, book)


def read_values(
    sections: Mapping[str, Any],
    provider: Mapping[str, Any],
    name: str,
    problems: tuple[Problem, ...] = (),
    today: datetime.date | None = None,
    unread: Collection[str] = (),
    book: Book | None = None,
) -> Reading:
    """Judges the values of a stack file, `provider` those of its `aws:` keys.

    `name` stands in messages, `problems` and `unread` were found before.
    """
    problems = (*problems, *refuse_keys(provider))
    honoured = {key: value for key, value in provider.items() if key in HONOURED}
    raw = {key: value for key, value in {**sections, **honoured}.items() if value is not None}
    config, misread, doubtful = _validated(raw, unread)
    unreadable = {problem.path for problem in (*problems, *misread)} | doubtful
    wrong = [*misread, *_contradictions(config, unreadable)]
    unreadable |= {problem.path for problem in wrong}
    if _named_in_doubt(config, unreadable):
        # Which model runs on which pool is not known, then.
        unreadable |= {f"models[{index}].pool" for index in range(len(config.models))}
    assessment = assess(replace(config.setup(today or datetime.date.today()), book=book), unreadable)
    warnings = (*assessment.warnings, *warn_of_clients(config.models_clients))
    assessment = replace(assessment, warnings=warnings)
    return Reading(name=name, config=config, problems=(*problems, *wrong, *assessment.problems), assessment=assessment)


def _validated(raw: dict[str, Any], unread: Collection[str]) -> tuple[StackConfig, list[Problem], set[str]]:
    """The config with stand-ins, its mistakes, and what probably stands in the file under a misspelt key."""
    values = json.loads(source.as_json(raw))
    found: dict[str, Problem] = {}
    doubtful = set(unread)
    for loc in list(_encrypted(values)):
        way_out = "Set it again without `--secret`: it is none."
        found[wording.where(loc)] = Problem(wording.where(loc), "an encrypted value", "must be readable", way_out)
        _repair(values, loc)
    for _ in range(MOST_PASSES):
        try:
            config = StackConfig.model_validate_json(source.as_json(values), by_name=False, by_alias=True)
        except ValidationError as error:
            details = [(detail, wording.place(detail)) for detail in error.errors(include_url=False)]
        else:
            # What a misspelt key may have been meant to be is not missing.
            told_once = [each for each in found.values() if each.rule != wording.MISSING or each.path not in doubtful]
            return config, told_once, doubtful
        for detail, loc in details:
            if detail["type"] == "extra_forbidden":
                doubtful |= {wording.where((*loc[:-1], key)) for key in near(str(loc[-1]), wording.keys(loc[:-1]))}
            found.setdefault(wording.where(loc), wording.problem(detail, loc))
        for _, loc in sorted(details, key=lambda pair: [str(part) for part in pair[1]], reverse=True):
            _repair(values, loc)
    raise AssertionError(f"stand-ins are mistakes themselves: {sorted(found)}")


def _encrypted(value: object, loc: wording.Loc = ()) -> Iterator[wording.Loc]:
    """Where Pulumi keeps secrets: `{secure: …}`, as `pulumi config set --secret` writes it."""
    if isinstance(value, dict) and [*value] == ["secure"] and isinstance(value["secure"], str):
        yield loc
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _encrypted(item, (*loc, key))


def _repair(values: dict[str, Any], loc: wording.Loc) -> None:
    """Puts a stand-in at `loc`, or takes the value away so that its default holds."""
    parent: Any = values
    for part in loc[:-1]:
        if isinstance(parent, dict) and part not in parent:
            return
        parent = parent[part]
    if (pattern := wording.pattern(loc)) in STAND_INS:
        parent[loc[-1]] = copy.deepcopy(STAND_INS[pattern])
    elif isinstance(parent, dict):
        parent.pop(loc[-1], None)


def _contradictions(config: StackConfig, misread: set[str]) -> Iterator[Problem]:
    """Values that are fine alone and wrong together."""
    pools = config.pools()
    if config.lacks_sharing() and not touches(["sharing"], misread):
        yield Problem("sharing", "", wording.MISSING, wording.WAYS_OUT["sharing"])
    for path, nodes in pools.items():
        if not {f"{path}.min", f"{path}.desired", f"{path}.max"} & misread:
            yield from _count_contradictions(path, nodes)
    types = {f"{path}.instance-types": nodes.instance_types for path, nodes in pools.items()}
    types["cluster.system-nodes.instance-types"] = config.cluster.system_nodes.instance_types
    for path, names in types.items():
        for index, name in enumerate(names):
            if name in names[:index] and f"{path}[{index}]" not in misread:
                yield Problem(f"{path}[{index}]", f"'{name}'", "is listed twice", "Keep one of the two.")
    for path, nodes in pools.items():
        if nodes.on_demand_fallback and (nodes.provisioner, nodes.capacity) != ("karpenter", "spot"):
            rule = "has an effect only with `provisioner: karpenter` and `capacity: spot`"
            yield Problem(f"{path}.on-demand-fallback", "true", rule, "Leave it out.")
    yield from _admin_contradictions(config, misread)
    yield from find_repetitions(config.models_clients, misread)
    yield from _zone_contradictions(config.cluster, misread)
    yield from _pool_contradictions(config, misread)
    yield from _model_contradictions(config, misread)


def _admin_contradictions(config: StackConfig, misread: set[str]) -> Iterator[Problem]:
    admins = config.cluster.admins
    for index, arn in enumerate(admins):
        path = f"cluster.admins[{index}]"
        if touches([path], misread):
            continue
        if arn in admins[:index]:
            # EKS: one access entry for each principal.
            yield Problem(path, f"'{arn}'", "is listed twice", "Keep one of the two.")
        elif problem := judge_principal(path, arn, config.region):
            yield problem


def _count_contradictions(path: str, nodes: GpuNodes) -> Iterator[Problem]:
    if nodes.desired > nodes.max:
        rule = f"must be at most `max`, {nodes.max}"
        yield Problem(f"{path}.desired", str(nodes.desired), rule, f"Write `max: {nodes.desired}` as well.")
    if nodes.desired and nodes.min > nodes.desired:
        rule = f"must be at most `desired`, {nodes.desired}"
        yield Problem(f"{path}.min", str(nodes.min), rule, "Write `min: 0`.")
    if not nodes.desired and nodes.min:
        yield Problem(f"{path}.min", str(nodes.min), "must be 0 for a parked pool (`desired: 0`)", "Write `min: 0`.")


def _zone_contradictions(cluster: ClusterSettings, misread: set[str]) -> Iterator[Problem]:
    path, names = "cluster.zone-names", cluster.zone_names
    if touches([path, "cluster.zones"], misread) or not names:
        return
    if len(names) < FEWEST_ZONES:
        yield Problem(path, ", ".join(names), "EKS needs two zones", "Add another zone.")
    elif "zones" in cluster.model_fields_set and cluster.zones != len(names):
        rule = f"lists {len(names)} zones, and `zones` is {cluster.zones}"
        yield Problem(path, ", ".join(names), rule, "Remove `zones`: the list says how many.")


def _named_in_doubt(config: StackConfig, misread: Collection[str]) -> bool:
    return touches([f"{path}.name" for path in config.pools()], misread)


def _pool_contradictions(config: StackConfig, misread: set[str]) -> Iterator[Problem]:
    """Names of pools that stand twice, and models on no pool or on an unknown one."""
    pools = config.pools()
    names = [pool_name(nodes) for path, nodes in pools.items() if not touches([f"{path}.name"], misread)]
    known = list(dict.fromkeys(names))
    for index, path in enumerate(path for path in pools if not touches([f"{path}.name"], misread)):
        if names[index] in names[:index]:
            yield Problem(f"{path}.name", names[index], "must be different for each pool", "Give it a name of its own.")
    for index, settings in enumerate(config.models):
        path = f"models[{index}].pool"
        if touches([path], misread) or settings.pool in known:
            continue
        if settings.pool is None and len(pools) > 1:
            listed = f" Known: {', '.join(known)}." if known else ""
            yield Problem(path, "", "is missing, and there are several pools", f"Name the one that it runs on.{listed}")
        elif settings.pool is not None and not _named_in_doubt(config, misread):
            yield Problem(path, f"'{settings.pool}'", "unknown pool", did_you_mean(settings.pool, known))


def _model_contradictions(config: StackConfig, misread: set[str]) -> Iterator[Problem]:
    ids = [settings.id for settings in config.models]
    for index, settings in enumerate(config.models):
        path = f"models[{index}]"
        if settings.id and settings.id in ids[:index]:
            yield Problem(f"{path}.id", settings.id, "must be different for each model", "Leave it out, or number it.")
        if {path, f"{path}.name", *(f"{path}.{key}" for key in OWN_KEYS)} & misread:
            continue
        found = list(settings.contradictions(path))
        yield from found
        if not found and settings.model() is None:
            fix = f"{did_you_mean(settings.name, models())} Or describe your own by {', '.join(OWN_NUMBERS)}."
            yield Problem(f"{path}.name", f"'{settings.name}'", _unknown_model(settings.name), fix)


def _unknown_model(name: str) -> str:
    """What is wrong with a name that the catalogue lacks. Without a tag it means `latest`, which it may lack alone."""
    full = full_name(name)
    is_completed = full.endswith(f":{DEFAULT_TAG}") and not name.endswith(f":{DEFAULT_TAG}")
    return f"unknown model; Ollama reads it as {full}" if is_completed else "unknown model"
