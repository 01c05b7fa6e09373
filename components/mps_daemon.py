"""The MPS daemon of a node, for limits that differ between models: its unit, its user data, and its directory in pods.

Amazon ECS runs such a unit on its GPU instances (amazon-ecs-ami at a2532d35, scripts/al2023/gpu/nvidia-mps.service).
The EKS AMI installs the same driver package, nvidia-driver-cuda, with the daemon's program.
"""

import pulumi
import pulumi_kubernetes as k8s

from components.disks import claim_volume
from sharing.modes.mps_clients import PIPE_DIRECTORY, PIPE_VARIABLE

UNIT = "tandem-mps.service"
PROGRAM = "/usr/bin/nvidia-cuda-mps-control"
CLAIM = "mps-daemon"
"""Name of the claim by which pods of a namespace mount the daemon's directory."""
NOMINAL_SIZE = "1Mi"
"""Size of the claim. Kubernetes requires one but does not enforce it."""
BOUNDARY = "==tandem=="
"""Between the parts of the user data."""


def unit() -> str:
    """The systemd unit. In the foreground, the daemon writes its log to the journal (k8s-device-plugin issue 1614).

    - It starts before the kubelet: the user data starts it at the first boot, and systemd at each later one. It must
      not wait for cloud-init or nodeadm. The first runs the script that starts it, and the second waits for that.
    - It starts again after every end, however often. Clients of all users share one server.
    - Its directory outlives the daemon. Pods that run have mounted this directory, and would not see another one.
    """
    return f"""[Unit]
Description=CUDA MPS daemon for pods with limits of their own
After=nvidia-kmod-load.service
Wants=nvidia-kmod-load.service
Before=nodeadm-run.service kubelet.service
ConditionPathExists={PROGRAM}
StartLimitIntervalSec=0

[Service]
Type=exec
Environment={PIPE_VARIABLE}={PIPE_DIRECTORY}
RuntimeDirectory={PIPE_DIRECTORY.removeprefix("/run/")}
RuntimeDirectoryPreserve=yes
ExecStart={PROGRAM} -f -multiuser-server
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
"""


def install_script() -> str:
    """The script that cloud-init runs once, at a node's first boot, before nodeadm starts the kubelet.

    Source: amazon-eks-ami, nodeadm-run.service, which is `After=cloud-final.service`. A node whose script fails joins
    all the same. If the unit never started, it has no directory for the pods' mount.
    """
    return f"""#!/bin/bash
set -euo pipefail
cat >/etc/systemd/system/{UNIT} <<'END'
{unit()}END
systemctl daemon-reload
systemctl enable --now {UNIT}
"""


def user_data() -> str:
    """The script as a MIME archive in plain text. EKS and Karpenter add a part with the node's own configuration.

    Any change of this text replaces nodes: by a new version of the launch template, or as Karpenter's drift.

    It begins with a header, by which Karpenter recognizes an archive, and is ASCII, which needs no encoding: of each
    part, Karpenter keeps only Content-Type and body (karpenter-provider-aws 1.14.1
    pkg/providers/amifamily/bootstrap/nodeadm.go, parseUserData, and mime/mime.go).
    """
    return f"""MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="{BOUNDARY}"

--{BOUNDARY}
Content-Type: text/x-shellscript; charset="us-ascii"

{install_script()}
--{BOUNDARY}--
"""


def claim_directory(
    name: str, namespace: pulumi.Input[str], child: pulumi.ResourceOptions, *, must_exist: bool = True
) -> pulumi.Output[str]:
    """Registers a claim on the daemon's directory, and returns its name. All pods of the namespace can use it.

    A pod does not start on a node that never had the directory, unless `must_exist` is False: then its mount makes it.
    A direct mount would violate the Pod Security level `baseline`.
    """
    kind = "Directory" if must_exist else "DirectoryOrCreate"
    directory = k8s.core.v1.HostPathVolumeSourceArgs(path=PIPE_DIRECTORY, type=kind)
    return claim_volume(f"{name}-{CLAIM}", CLAIM, namespace, NOMINAL_SIZE, {"host_path": directory}, child)
