"""Ids and outputs of resources: as in a run without the engine, but unique, and with this cloud's own values."""

import json
from typing import Any

from sandbox.cloud.answers import Cloud
from sandbox.cloud.identity import digest
from sandbox.cloud.protocol import Creation
from sandbox.world import tokens
from sandbox.world.entities import Entities, Entity, value_at
from sandbox.world.providers.names import DEFAULTS


def outputs_of(
    cloud: Cloud,
    entities: Entities,
    token: str,
    name: str,
    serial: int,
    inputs: dict[str, Any],
    provider: dict[str, Any],
) -> tuple[str, dict[str, Any]]:
    """Id and outputs of a new resource. The serial in the name makes every generated id unique."""
    made = cloud.created(Creation(type=token, name=f"{name} {serial}", inputs=inputs, provider=provider))
    outputs = json.loads(json.dumps({key: value for key, value in made.outputs.items() if key != DEFAULTS}))
    if token == tokens.CLUSTER:
        outputs = _own_cluster(entities, outputs, serial)
    return made.id, outputs


def outputs_after(cloud: Cloud, entities: Entities, entity: Entity, before: dict[str, Any]) -> dict[str, Any]:
    """Outputs of an updated resource, derived from its new inputs. Values computed at creation stay."""
    _, fresh = outputs_of(cloud, entities, entity.type, entity.name, entity.serial, entity.inputs, entity.provider)
    dropped = before.keys() - entity.inputs.keys()
    kept = {key: value for key, value in entity.outputs.items() if key not in dropped}
    outputs = {**kept, **fresh}
    if entity.type == tokens.TEMPLATE:
        outputs |= _next_version(entity, before)
    if entity.type == "kubernetes:helm.sh/v3:Release":
        revision = int(value_at(entity.outputs, "status.revision") or 1)
        outputs["status"] = {**outputs["status"], "revision": revision + 1}
    return outputs


def _own_cluster(entities: Entities, outputs: dict[str, Any], serial: int) -> dict[str, Any]:
    """Endpoint, security group and VPC of this control plane, different from others with the same name."""
    name = str(outputs["name"])
    text = json.dumps(outputs)
    shared, own = digest("eks", name), digest("eks", name, str(serial))
    text = text.replace(shared.upper(), own.upper()).replace(shared, own)
    own_outputs: dict[str, Any] = json.loads(text)
    network = own_outputs["vpcConfig"]
    subnet = entities.get("aws:ec2/subnet:Subnet", value_at(network, "subnetIds"))
    if subnet is not None:
        network["vpcId"] = subnet.inputs.get("vpcId")
    return own_outputs


def _next_version(entity: Entity, before: dict[str, Any]) -> dict[str, Any]:
    # Tags of the template itself are none of a version (Terraform AWS provider, internal/service/ec2/
    # ec2_launch_template.go).
    is_newer = {**before, "tags": None} != {**entity.inputs, "tags": None}
    return {"latestVersion": int(entity.outputs["latestVersion"]) + is_newer}
