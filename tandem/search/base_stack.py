"""The stack for which commands try setups: the models of the call, or those of a stack file."""

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sharing.cost.bill import cost
from sharing.modes.modes import Sharing
from sharing.names import PROJECT
from sharing.problems import Problem
from sharing.sections.budget import Budget
from sharing.sections.config import SECTIONS, StackConfig
from sharing.sections.pools import Capacity, GpuPool, PoolSettings
from sharing.verdict.rules.budget import PER_HOUR, PER_MONTH, peak_limit, warn_of_peak
from stacks.stack_file.judge import judge
from stacks.stack_file.positions import locate_given, read_documents
from stacks.stack_file.provider_keys import REGION
from stacks.stack_file.write import stack_file
from stacks.stack_file.yaml import Source, read
from tandem.lookup import require_region
from tandem.search.contexts import with_slots
from tandem.terminal import CallError, in_words

ANYWHERE = "0.0.0.0/0"
"""From `Pulumi.dev.yaml`, like the cluster. It is explicit, so that no rule warns about open access."""
CAPACITIES: tuple[Capacity, ...] = ("spot", "on-demand")
"""How every setup is tried."""
TYPES = "gpu-nodes.instance-types"
MOST_NAMED = 3
"""Models."""
SETTING = re.compile(r"models\[[^]]*\]\.(\w+)(?=:)")
"""Where an error about a model's setting begins."""
Values = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseStack:
    """Everything but the pool of GPU nodes and its sharing."""

    sections: Values
    """The values of the `tandem:` keys, by key."""
    provider: Values
    """The values of the `aws:` keys, by whole key."""
    config: StackConfig
    """The stack as the rules see it, with one pool."""

    def in_region(self, region: str) -> "BaseStack":
        """The same stack in another region."""
        return replace(self, provider={**self.provider, REGION: region}, config=self.config.changed(region=region))

    def with_limits(self, limits: Values) -> "BaseStack":
        """The same stack with these keys of `budget`."""
        sections = {**self.sections, **_with_limits(self.sections, limits)}
        return replace(self, sections=sections, config=self.config.changed(budget=Budget.model_validate(limits)))

    def written(self, chosen: StackConfig, comments: Sequence[str], about_types: str) -> str:
        """The stack file of a setup that was chosen, with comments as its first lines and on its instance types."""
        values = {**self.provider, **{f"tandem:{key}": value for key, value in self.sections_of(chosen).items()}}
        return stack_file(values, comments, notes={TYPES: about_types})

    def sections_of(self, chosen: StackConfig) -> Values:
        """The values of the `tandem:` keys for a setup that was chosen.

        A limit per month alone gets one for the peak, so that the plan of the file has no warning about it.
        """
        [pool] = chosen.pools
        own = {"sharing": sharing_values(pool.sharing), "gpu-nodes": _node_values(pool, chosen)}
        if warn_of_peak(self.config, cost(chosen)):
            own["budget"] = {**self.sections["budget"], PER_HOUR: peak_limit(self.config, cost(chosen))}
        models = self.sections["models"]
        sections = {**self.sections, "models": models if pool.sharing.needs_node_daemon else without_shares(models)}
        return {**own, **{key: value for key, value in sections.items() if key not in own}}


def of_models(
    models: Sequence[Values],
    region: str,
    limits: Values,
    today: datetime.date,
    allowed: Sequence[str] | None = None,
    others: Values | None = None,
) -> BaseStack:
    """Models of the catalogue, each with its `name` and other keys of a stack file, on the cheapest cluster.

    `limits` are keys of `budget`, `allowed` the networks that may reach the Kubernetes API (by default all), `others`
    more sections, and more keys of `cluster`.
    """
    others = others or {}
    networks = [ANYWHERE] if allowed is None else [*allowed]
    cluster = {"nat": "none", "public-access-cidrs": networks, "system-nodes": {"count": 1}}
    sections: Values = {
        **others,
        "cluster": {**cluster, **others.get("cluster", {})},
        "models": [*models],
        **_with_limits({}, limits),
    }
    return of_values(sections, region, today)


def of_values(sections: Values, region: str, today: datetime.date) -> BaseStack:
    """The values of `tandem:` keys; the other keys have the defaults of a stack file."""
    return _read(sections, {REGION: region}, today, "the call")


def of_file(path: Path, settings: Values, region: str | None, limits: Values, today: datetime.date) -> BaseStack:
    """The models and everything else of a stack file. Values of the call replace those of the file."""
    file = read(path, SECTIONS)
    if file.problems:
        raise CallError("\n".join(map(str, file.problems)))
    models = file.sections.get("models")
    sections: Values = {**file.sections, **_with_limits(file.sections, limits)}
    if isinstance(models, list):
        sections["models"] = [_changed(each, settings) if isinstance(each, dict) else each for each in models]
    if isinstance(sections.get("gpu-nodes"), list):
        sections["gpu-nodes"] = {}
    provider = {**file.provider, **({REGION: region} if region else {})}
    return _read(sections, provider, today, path.name, [path.parent])


def _changed(model: Values, settings: Values) -> Values:
    own = {key: value for key, value in model.items() if key not in ("pool", "spill")}  # all models are on one pool
    others = {key: value for key, value in settings.items() if key != "slots"}
    [changed] = with_slots([{**own, **others}], settings.get("slots"))
    return changed


def about_arguments(message: str, names: Mapping[str, str]) -> str:
    """Errors about settings of models as errors about the arguments that set them; `names` has these by setting."""

    def name(line: str) -> str:
        setting = SETTING.match(line)
        if not setting or setting[1] not in names:
            return line
        return f"{names[setting[1]]}{line[setting.end() :]}".replace("Remove the key for", "Leave it out for")

    return "\n".join(dict.fromkeys(map(name, message.splitlines())))


def models_of(config: StackConfig) -> str:
    """The models in a sentence: by name, or, if there are many, their number."""
    names = [served.model.short_name for served in config.models]
    return in_words(names) if 0 < len(names) <= MOST_NAMED else f"{len(names)} models"


def context_of(config: StackConfig) -> str:
    """The context of the models, for the head of a table: `, context 4,096`; nothing where it differs."""
    contexts = {served.effective_context for served in config.models}
    return f", context {contexts.pop():,}" if len(contexts) == 1 else ""


def sharing_values(sharing: Sharing) -> Values:
    """The sharing as a stack file has it."""
    return {"mode": sharing.mode, **sharing.model_dump(by_alias=True, exclude_unset=True)}


def without_shares(models: Sequence[Values]) -> list[Values]:
    """Models of a stack file without limits of their own, which only one sharing mode has."""
    return [{key: value for key, value in each.items() if key != "share"} for each in models]


def _with_limits(sections: Values, limits: Values) -> Values:
    """The section `budget` with the limits of the call instead of those of the file; nothing without any."""
    written = sections.get("budget")
    kept = written if isinstance(written, dict) else {}
    others = {key: value for key, value in kept.items() if key not in (PER_HOUR, PER_MONTH)}
    return {"budget": {**others, **limits}} if limits else {}


def _node_values(pool: GpuPool, chosen: StackConfig) -> Values:
    standard = PoolSettings()
    is_standard = pool.provisioner == standard.provisioner
    values: Values = {} if is_standard else {"provisioner": pool.provisioner}
    values |= {"instance-types": list(pool.instance_types), "capacity": pool.capacity}
    if is_standard and not chosen.park:  # the schedule of `park`, and Karpenter, set the number of nodes
        values["desired"] = pool.desired
    values["max"] = pool.max
    if pool.volume_gib != standard.volume_gib:
        values["volume-gib"] = pool.volume_gib
    if pool.replacement != standard.replacement:
        values["replacement"] = pool.replacement
    return values


def _read(
    sections: Values, provider: Values, today: datetime.date, name: str, folders: Sequence[Path] = ()
) -> BaseStack:
    """Raises `CallError` if the values themselves are wrong; the sharing is not judged yet.

    `folders` may have a stack file of that `name`.
    """
    source = Source({**sections, "sharing": {"mode": "exclusive"}}, provider, folder=next(iter(folders), Path()))
    judged = judge(source, name, today=today)
    said_by_rules = judged.decided.verdict.problems if judged.decided else ()
    of_rules = {(problem.path, problem.rule) for problem in said_by_rules}
    wrong = [problem for problem in judged.problems if (problem.path, problem.rule) not in of_rules]
    if wrong:
        given = {**{f"{PROJECT}:{key}": value for key, value in sections.items()}, **provider}
        raise CallError("\n".join(map(_said, locate_given(wrong, given, read_documents(folders, name)))))
    require_region(judged.config.region)
    [pool] = judged.config.pools
    # Every setup is tried as spot and on demand, so none falls back. Of types that the file does not name, nobody has
    # said that the region offers them.
    tried = pool.changed(on_demand_fallback=False, check_offers=True)
    return BaseStack(sections=sections, provider=provider, config=judged.config.with_pool(tried))


def _said(problem: Problem) -> str:
    """The problem with its position; a value of the call has none."""
    is_in_file = problem.place is not None and problem.place.line
    return str(problem if is_in_file else replace(problem, place=None))
