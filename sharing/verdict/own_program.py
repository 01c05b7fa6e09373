"""The verdict on pools and models that no stack file has: the arguments of components in a program of one's own.

They become a stack with the same pools and models, so the sentences are those of `tandem plan`. Its other parts are
unknown here, so nothing is said about them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from sharing.models.served import ServedModel
from sharing.models.share import Share
from sharing.modes.modes import MODES
from sharing.problems import Problem
from sharing.stack.config import StackConfig
from sharing.stack.pools import GpuPool
from sharing.verdict.full import Fit, judge_fully
from sharing.verdict.rules.pool_names import find_wrong_names
from sharing.verdict.rules.rule import concerns


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnVerdict:
    """What the rules say about the pools and the models of a program."""

    config: StackConfig
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...] = ()
    fits: tuple[Fit, ...] = ()


def judge_own(
    pools: Mapping[str, GpuPool], models: Sequence[ServedModel], *, disks_are_known: bool = True
) -> OwnVerdict:
    """Judges the models on the pools, which are given by the path that messages name."""
    config = StackConfig.of(pools, models)
    if wrong := tuple(find_wrong_names(config)):
        return OwnVerdict(config=config, problems=wrong)
    if not disks_are_known:
        roomy = [pool.changed(volume_gib=max(pool.volume_gib, config.disk_gib(pool))) for pool in config.pools]
        config = config.changed(pools=roomy)
    verdict = judge_fully(config)
    return OwnVerdict(
        config=config,
        problems=tuple(problem for problem in verdict.problems if _is_theirs(problem, config)),
        warnings=tuple(warning for warning in verdict.warnings if _is_theirs(warning, config)),
        fits=verdict.fits,
    )


def _is_theirs(problem: Problem, config: StackConfig) -> bool:
    return any(concerns(problem, pool, config) for pool in config.pools)


def in_python(text: str) -> str:
    """A message with the names of arguments, e.g. `instance_types` for the key `instance-types`."""
    return _keys().sub(lambda key: key[0].replace("-", "_"), text)


@cache
def _keys() -> re.Pattern[str]:
    sections = (GpuPool, ServedModel, Share, *MODES)
    names = {field.alias or name for section in sections for name, field in section.model_fields.items()}
    return re.compile(rf"(?<![\w-])({'|'.join(sorted(name for name in names if '-' in name))})(?![\w-])")
