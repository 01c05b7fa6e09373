"""Where the models of the pair run, and what follows from it for their pods."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pulumi

from components.ollama_pair.model import OllamaModel
from components.planned_pools import GpuNodes, PlannedPool
from sharing.fit import host
from sharing.models.share import MIB_PER_GIB, Share
from sharing.modes.base import GPU_RESOURCE
from sharing.problems import Problem
from sharing.sections.config import StackConfig
from sharing.sections.pools import POOL, GpuPool
from sharing.verdict.own_program import in_python, judge_own, with_arguments
from sharing.verdict.quick import Fit

RUNS_ON = "runs_on"
ARGUMENTS = (
    (r"(models\[\d+\])\.name:", r"\1.model:"),
    (r"(runs_on\S*)\.name:", r"\1.pool:"),
    (r"\.spill\[", ".spill_pools["),
    ("`spill`", "`spill_pools`"),
)
"""Arguments whose names are not those of the keys in a stack file."""


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """The nodes of one pool, as a pod selects them."""

    pool: str
    """The value of the label `tandem/pool`."""
    ready_labels: Mapping[str, str] = field(default_factory=dict)
    """Extra labels that the pod requires, e.g. the one that a node gets once its MIG slices are ready."""
    mode_taint: pulumi.Input[str] | None = None
    """Value of the taint `tandem/mode` that the pod tolerates; any other value evicts it. None: any value."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """What one model's pod gets and requires there."""

    home: Nodes
    spill: Sequence[Nodes] = ()
    """Nodes of other pools, the first choice first."""
    resource: str = GPU_RESOURCE
    """Extended resource of which the pod requests one."""
    needs_mps_daemon: bool = False
    """Whether all of its pools share their GPUs by MPS with equal limits. It is then never loaded without the device
    plugin's MPS daemon.
    """
    share: Share | None = None
    """Its limits, where each model of a GPU has its own."""
    page_cache_mib: int | None = None
    """RAM for the page cache that holds the weights while they load. None: the size of the weights."""
    is_awaited: bool = True
    """False if its nodes are parked: the release does not wait until the pod runs."""


@dataclass(frozen=True, kw_only=True)
class JudgedPools:
    """Pools and models on which the rules have decided already: the program of stacks has a verdict of its own."""

    config: StackConfig
    fits: Sequence[Fit]
    mode_taints: Mapping[str, pulumi.Input[str] | None]
    """Value of the taint `tandem/mode` of each pool's nodes, by the pool's name."""
    asleep: Collection[str] = ()
    """Names of the pools that a schedule keeps without nodes now."""
    warnings: Sequence[str] = ()
    """What the program has not yet shown."""

    def places(self) -> dict[str, Place]:
        """The place of each model, by its id."""
        return {fit.served.id: self._place(fit) for fit in self.fits}

    def _place(self, fit: Fit) -> Place:
        # A pool with `desired: 0` gets no model: on Karpenter, a waiting one would start a node there.
        others = [other for name in fit.served.spill for other in self.config.active_pools if other.name == name]
        pools = [fit.pool, *others]
        return Place(
            home=self._nodes(fit.pool),
            spill=[self._nodes(other) for other in others],
            resource=fit.placement.shares.resource,
            needs_mps_daemon=all(pool.sharing.needs_mps_daemon for pool in pools),
            share=_limits(fit),
            page_cache_mib=host.page_cache_mib(self.config, *pools),
            is_awaited=fit.pool.name not in self.asleep,
        )

    def _nodes(self, pool: GpuPool) -> Nodes:
        return Nodes(pool=pool.name, ready_labels=pool.sharing.ready_labels, mode_taint=self.mode_taints.get(pool.name))


def _limits(fit: Fit) -> Share | None:
    """The limits of a model that has its own; None for other modes."""
    shares = fit.placement.shares
    memory_mib = shares.memory_mib if shares.own_limits else None
    if memory_mib is None:
        return None
    compute = fit.served.share.compute_percent if fit.served.share else None
    return Share(memory_gib=memory_mib / MIB_PER_GIB, compute_percent=compute)


def place_unjudged(model: OllamaModel) -> Place:
    """The place of a model on nodes of which only the name of the pool is known."""
    return Place(
        home=Nodes(pool=model.pool or POOL),
        spill=[Nodes(pool=name) for name in model.spill_pools],
        share=model.share,
    )


def judge_pools(nodes: GpuNodes | Sequence[GpuNodes], models: Sequence[OllamaModel]) -> JudgedPools:
    """The verdict on the models on these nodes. Raises `ValueError` with every error, in the words of `tandem plan`."""
    planned = dict(_by_path(nodes))
    if not planned:
        raise ValueError("OllamaPairArgs.runs_on has no pool. Pass the nodes of the models.")
    pools = {path: each.pool for path, each in planned.items()}
    config, verdict = judge_own(pools, [model.served for model in models])
    if verdict.problems:
        raise ValueError("\n".join(_messages(verdict.problems, pools)))
    return JudgedPools(
        config=config,
        fits=verdict.fits,
        mode_taints={each.pool.name: each.mode_taint for each in planned.values()},
        warnings=[*_messages(verdict.warnings, pools)],
    )


def _by_path(nodes: GpuNodes | Sequence[GpuNodes]) -> Iterator[tuple[str, PlannedPool]]:
    """The pools by the path of their argument, e.g. `runs_on[1]`."""
    one = isinstance(nodes, GpuNodes)
    for index, each in enumerate([nodes] if isinstance(nodes, GpuNodes) else nodes):
        path = RUNS_ON if one else f"{RUNS_ON}[{index}]"
        pools = each.planned_pools
        if len(pools) == 1:
            yield path, pools[0]
        else:
            yield from ((f"{path}.pools[{index}]", pool) for index, pool in enumerate(pools))


def _messages(problems: Sequence[Problem], pools: Mapping[str, GpuPool]) -> Iterator[str]:
    """The problems with the names of arguments."""
    for problem in problems:
        text = in_python(problem.message)
        for key, argument in ARGUMENTS:
            text = re.sub(key, argument, text)
        for path, pool in pools.items():
            if not pool.volume_gib:
                desired = rf"`{re.escape(path)}\.desired: \d+`"
                text = re.sub(rf"{desired} with |(?: with| and) {desired}", "", text)
            if not pool.volume_gib or pool.provisioner == "karpenter":
                text = text.replace(f"{path}.max:", f"{path}.max_nodes:")
        yield f"OllamaPairArgs.{with_arguments(text)}"
