"""KEDA and the scaling of each model, if the stack file has `scale-to-zero.enabled`."""

from dataclasses import replace
from typing import TYPE_CHECKING

import pulumi

from components import OllamaModel, OllamaPair, Scaling
from sharing.names import PROJECT
from sharing.verdict.features.scale_to_zero import longest_wait_minutes, sleepers
from stacks.clients import list_clients
from stacks.stack_file.judge import Plan

if TYPE_CHECKING:
    from components import ScaleToZero


def deploy_keda(plan: Plan, options: pulumi.ResourceOptions) -> "ScaleToZero | None":
    """KEDA, before the models: they have objects of its types. None if no model scales to zero."""
    tenants = sleepers(plan.config)
    if not tenants:
        return None
    from components import ScaleToZero, ScaleToZeroArgs

    args = ScaleToZeroArgs(models=[served.id for served in tenants], clients=list_clients(plan))
    return ScaleToZero(f"{PROJECT}-zero", args, options)


def add_scaling(model: OllamaModel, plan: Plan, zero: "ScaleToZero | None") -> OllamaModel:
    """The model with its scaling, if it scales to zero."""
    settings = plan.config.scale_to_zero
    matching = [served for served in sleepers(plan.config) if served.id == model.served.id]
    if zero is None or not matching:
        return model
    scaling = Scaling(
        idle_minutes=settings.idle_minutes,
        cold_requests=settings.cold_requests,
        longest_wait_minutes=longest_wait_minutes(matching[0]),
        scaler=zero.scaler,
    )
    return replace(model, scaling=scaling)


def find_endpoints(models: OllamaPair, zero: "ScaleToZero | None") -> pulumi.Output[dict[str, str]]:
    """The URL of each model for its callers. The URL of a model's own Service does not start it."""
    if zero is None:
        return models.urls
    return pulumi.Output.all(models.urls, zero.urls).apply(lambda urls: {**urls[0], **urls[1]})
