"""The verdict on pools and models that no stack file has: the arguments of components in a program of one's own.

They become a stack with the same pools and models, so the sentences are those of `tandem plan`. Its other parts are
unknown here, so nothing is said about them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import yaml

from sharing.models.served import ServedModel
from sharing.problems import Problem
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool
from sharing.verdict.full import FullVerdict, judge_fully
from sharing.verdict.rules.pool_names import find_wrong_names
from sharing.verdict.rules.rule import concerns

USUAL_DISK_GIB: int = GpuPool.model_fields["volume_gib"].default


def judge_own(pools: Mapping[str, GpuPool], models: Sequence[ServedModel]) -> tuple[StackConfig, FullVerdict]:
    """The stack and the verdict. The pools are given by the path that messages name, and have a large enough disk if
    theirs is unknown (0).
    """
    config = StackConfig.of(pools, models)
    if wrong := tuple(find_wrong_names(config)):
        return config, FullVerdict(problems=wrong, warnings=(), fits=(), cost=None, advice={})
    for pool in config.pools:
        if not pool.volume_gib:
            config = config.with_pool(pool.changed(volume_gib=max(USUAL_DISK_GIB, config.disk_gib(pool))))

    def theirs(problems: Iterable[Problem]) -> tuple[Problem, ...]:
        return tuple(each for each in problems if any(concerns(each, pool, config) for pool in config.pools))

    verdict = judge_fully(config)
    return config, replace(verdict, problems=theirs(verdict.problems), warnings=theirs(verdict.warnings))


def in_python(text: str) -> str:
    """A message with the names of arguments, e.g. `instance_types:` for the key `instance-types:`."""
    return re.sub(r"[a-z]+(-[a-z]+)+(?=: |\[\d)", lambda key: key[0].replace("-", "_"), text)


def with_arguments(text: str) -> str:
    """A message of `in_python` with settings as Python has them: `types=["a"]` for `types: [a]`."""

    def assign(setting: re.Match[str]) -> str:
        return f"`{setting[1]}={yaml.safe_load(setting[2])!r}`".replace("'", '"')

    text = re.sub(r"`([\w.\[\]]+): ([^`]+)`", assign, text)
    return re.sub(r"\bWrite(?= `[\w.\[\]]+=)", "Pass", text)
