"""The models of a stack, with the pools on which each may run."""

from collections.abc import Collection, Mapping

import pulumi

from components.ollama_pair import OllamaModel, SpillPool
from sharing.fit import host
from sharing.models.share import MIB_PER_GIB, Share
from sharing.verdict.full import Fit
from stacks.stack_file.judge import Plan


def _limits(fit: Fit) -> Share | None:
    """The limits of a model that has its own; None for other modes."""
    shares = fit.placement.shares
    if not shares.own_limits or shares.memory_mib is None:
        return None
    compute = fit.served.share.compute_percent if fit.served.share else None
    return Share(memory_gib=shares.memory_mib / MIB_PER_GIB, compute_percent=compute)


def describe_model(
    fit: Fit,
    plan: Plan,
    mode_taints: Mapping[str, pulumi.Output[str]],
    volume_zones: Mapping[str, pulumi.Output[str]],
    asleep: Collection[str],
) -> OllamaModel:
    """A model as `OllamaPair` serves it. `asleep` names the pools that the schedule keeps without nodes now."""
    served, pool = fit.served, fit.pool
    is_asleep = pool.name in asleep
    # A pool with `desired: 0` gets no model: on Karpenter, a waiting one would start a node there.
    others = [other for name in served.spill for other in plan.config.awake if other.name == name]
    return OllamaModel(
        served.model,
        id=served.id,
        context=served.context,
        slots=served.slots,
        kv_type=served.kv_type,
        batch=served.batch,
        prompt_cache_mib=served.prompt_cache_mib,
        cache=served.cache,
        pool=pool.name,
        ready_labels=pool.sharing.ready_labels,
        mode_taint=mode_taints[pool.name],
        spill_pools=[
            SpillPool(other.name, ready_labels=other.sharing.ready_labels, mode_taint=mode_taints[other.name])
            for other in others
        ],
        # Only Karpenter removes a node that has become empty.
        packed=plan.config.has_importance and pool.provisioner == "karpenter" and pool.capacity == "on-demand",
        importance=served.importance,
        resource_name=fit.placement.shares.resource,
        needs_mps_daemon=all(each.sharing.needs_mps_daemon for each in (pool, *others)),
        share=_limits(fit),
        page_cache_mib=host.page_cache_mib(plan.config, pool, *others),
        # A wake scales the Deployments of Karpenter's pools. Helm would set one replica, and so wake them.
        running=pool.desired > 0 and not (is_asleep and pool.provisioner == "karpenter"),
        is_awaited=not is_asleep,
        zone=volume_zones[pool.name] if served.cache == "volume" else None,
    )
