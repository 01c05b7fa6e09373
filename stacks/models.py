"""The models of a stack, and where they run."""

from collections.abc import Collection, Mapping

import pulumi

from components.ollama_pair import OllamaModel
from sharing.verdict.full import Fit
from stacks.stack_file.judge import Plan


def describe_model(
    fit: Fit, plan: Plan, volume_zones: Mapping[str, pulumi.Output[str]], asleep: Collection[str]
) -> OllamaModel:
    """A model as `OllamaPair` serves it. `asleep` names the pools that the schedule keeps without nodes now."""
    served, pool = fit.served, fit.pool
    is_asleep = pool.name in asleep
    return OllamaModel(
        served.model,
        id=served.id,
        # A longer one than the model supports is a warning of the plan, and an error of the component.
        context=served.effective_context,
        slots=served.slots,
        kv_type=served.kv_type,
        batch=served.batch,
        prompt_cache_mib=served.prompt_cache_mib,
        cache=served.cache,
        pool=pool.name,
        spill_pools=served.spill,
        # Only Karpenter removes a node that has become empty.
        packed=plan.config.has_importance and pool.provisioner == "karpenter" and pool.capacity == "on-demand",
        importance=served.importance,
        # A wake scales the Deployments of Karpenter's pools. Helm would set one replica, and so wake them.
        running=pool.desired > 0 and not (is_asleep and pool.provisioner == "karpenter"),
        zone=volume_zones[pool.name] if served.cache == "volume" else None,
    )
