"""User data: the text with which an instance starts, and the MPS daemon that its scripts install on the node."""

import re
from base64 import b64decode
from email import message_from_string
from typing import Any

from sandbox.world import tokens
from sandbox.world.entities import Entities, Entity, value_at

MOST_BYTES = 16384
SCRIPT = "text/x-shellscript"
"""Type of the parts that cloud-init runs once, before nodeadm starts the kubelet (amazon-eks-ami, nodeadm-run.service:
`After=cloud-final.service`).
"""
DAEMON, ENABLED = "nvidia-cuda-mps-control", "systemctl enable"
_PIPES = re.compile(r"CUDA_MPS_PIPE_DIRECTORY=[\"']?([^\s\"']+)")


def keep_version(entities: Entities, template: Entity) -> None:
    """Keeps the inputs of a launch template's latest version: a group launches nodes of its own, perhaps older one."""
    entities.templates[f"{template.id}:{template.outputs.get('latestVersion') or 1}"] = dict(template.inputs)


def template_of(entities: Entities, group: dict[str, Any]) -> dict[str, Any]:
    """Inputs of the launch template's version that a node group with these inputs uses; empty without one."""
    identity, version = (value_at(group, f"launchTemplate.{key}") for key in ("id", "version"))
    template = entities.get(tokens.TEMPLATE, identity)
    return entities.templates.get(f"{identity}:{version}", template.inputs) if template else {}


def decoded(value: Any) -> str | None:
    """The text of user data in base64, with a character for each byte; None if it is not base64."""
    try:
        return b64decode(str(value or ""), validate=True).decode("latin-1")
    except ValueError:
        return None


def is_multipart(text: str) -> bool:
    """Whether the text is a MIME archive of several parts."""
    return message_from_string(text).is_multipart()


def mps_directory(node: Entity) -> str:
    """Directory of the MPS daemon that the node's user data installs; empty if it installs none.

    The text alone decides, and never a label. Every part is read as it is: Karpenter keeps no header that says how a
    part is encoded (karpenter-provider-aws v1.14.1, pkg/providers/amifamily/bootstrap/mime/mime.go).
    """
    text = str(node.inputs.get("userData") or "")
    scripts = [
        str(part.get_payload()) for part in message_from_string(text).walk() if part.get_content_type() == SCRIPT
    ]
    # Karpenter makes a script of text that is no archive (bootstrap/nodeadm.go of the same release).
    for script in scripts if is_multipart(text) else [text]:
        if DAEMON in script and ENABLED in script and (found := _PIPES.search(script)):
            return found[1]
    return ""
