"""The MPS daemon of a node, for limits that differ between models: its unit, its user data, and its pods' mount.

Amazon ECS runs the same unit on its GPU instances (amazon-ecs-ami scripts/al2023/gpu/nvidia-mps.service). The EKS AMI
has the same driver package, with the daemon's program.
"""

from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

import pulumi
import pulumi_kubernetes as k8s

from components.disks import claim_volume
from sharing.modes.mps_clients import PIPE_DIRECTORY, PIPE_VARIABLE

UNIT = "tandem-mps.service"
PROGRAM = "/usr/bin/nvidia-cuda-mps-control"
LOG_DIRECTORY = "/var/log/tandem-mps"
CLAIM = "mps-daemon"
"""Name of the claim by which pods of a namespace mount the daemon's directory."""
NOMINAL_SIZE = "1Mi"
"""Size of the claim. Kubernetes requires one but does not enforce it."""
BOUNDARY = "==tandem=="
"""Between the parts of the user data. Fixed, so that the text and the launch template stay the same."""


def unit() -> str:
    """The systemd unit.

    - It starts before the kubelet, and again after every end. Users of several IDs are clients of one server.
    - Its directory outlives a restart. With another one, pods that run would see the old, empty directory.
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
Environment={PIPE_VARIABLE}={PIPE_DIRECTORY} CUDA_MPS_LOG_DIRECTORY={LOG_DIRECTORY}
RuntimeDirectory={PIPE_DIRECTORY.removeprefix("/run/")}
RuntimeDirectoryPreserve=yes
LogsDirectory={LOG_DIRECTORY.removeprefix("/var/log/")}
ExecStart={PROGRAM} -f -multiuser-server
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
"""


def install_script() -> str:
    """The script that cloud-init runs at a node's first start, before nodeadm starts the kubelet.

    Source: amazon-eks-ami, nodeadm-run.service, which is `After=cloud-final.service`.
    """
    return f"""#!/bin/bash
set -euo pipefail
cat >/etc/systemd/system/{UNIT} <<'END'
{unit()}END
systemctl daemon-reload
systemctl enable --now {UNIT}
"""


def user_data() -> str:
    """The script as a MIME archive, to which EKS and Karpenter add the node's own configuration.

    ASCII only: Karpenter keeps no header of a part but its Content-Type, so the script must be readable without.
    """
    archive = MIMEMultipart(boundary=BOUNDARY)
    part = MIMEText(install_script(), "x-shellscript", "us-ascii")
    archive.attach(part)
    return archive.as_string()


def claim_directory(name: str, namespace: pulumi.Input[str], child: pulumi.ResourceOptions) -> pulumi.Output[str]:
    """Registers a claim on the daemon's directory, and returns its name. All pods of the namespace can use it.

    A pod on a node without the directory does not start. A direct mount would violate Pod Security level `baseline`.
    """
    directory = k8s.core.v1.HostPathVolumeSourceArgs(path=PIPE_DIRECTORY, type="Directory")
    return claim_volume(f"{name}-{CLAIM}", CLAIM, namespace, NOMINAL_SIZE, {"host_path": directory}, child)
