"""Every pinned version, one constant per line. Change a version and its row of rules in one commit."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A pinned program that runs on GPU nodes."""

    name: str
    version: str
    architectures: frozenset[str]


# renovate: datasource=endoflife-date depName=amazon-eks
KUBERNETES = "1.36"
"""Default version of the control plane."""

# renovate: datasource=helm depName=nvidia-device-plugin registryUrl=https://nvidia.github.io/k8s-device-plugin
DEVICE_PLUGIN_CHART = "0.20.0"
DEVICE_PLUGIN_REPOSITORY = "https://nvidia.github.io/k8s-device-plugin"

# renovate: datasource=docker depName=registry.k8s.io/nfd/charts/node-feature-discovery
FEATURE_DISCOVERY_CHART = "0.19.0"
"""The version that the plugin's chart and the operator's depend on (their Chart.yaml)."""
FEATURE_DISCOVERY_REPOSITORY = "oci://registry.k8s.io/nfd/charts"

# renovate: datasource=helm depName=gpu-operator registryUrl=https://helm.ngc.nvidia.com/nvidia
GPU_OPERATOR_CHART = "v26.7.0"
GPU_OPERATOR_REPOSITORY = "https://helm.ngc.nvidia.com/nvidia"

# renovate: datasource=helm depName=ollama registryUrl=https://helm.otwld.com
OLLAMA_CHART = "1.77.0"
OLLAMA_REPOSITORY = "https://helm.otwld.com"
# renovate: datasource=docker depName=ollama/ollama
OLLAMA_IMAGE_TAG = "0.32.15@sha256:57d60e686821ea81a7748a3ec8141308c8b8f95b27105713954abf7a6529e700"
"""Digest of the multi-platform index, so that pushing the tag again has no effect."""
OLLAMA = OLLAMA_IMAGE_TAG.partition("@")[0]

# renovate: datasource=docker depName=public.ecr.aws/karpenter/karpenter
KARPENTER_CHART = "1.14.1"
"""Both charts and their controller; 1.14.1 is the newest whose charts, CRDs and IAM documents we reviewed."""
KARPENTER_CRD_REPOSITORY = "oci://public.ecr.aws/karpenter/karpenter-crd"
KARPENTER_REPOSITORY = "oci://public.ecr.aws/karpenter/karpenter"

# renovate: datasource=docker depName=public.ecr.aws/docker/library/python
PROBER_IMAGE = (
    "public.ecr.aws/docker/library/python:3.13.14-slim-trixie"
    "@sha256:9662417aace5ae7b8e2609cce472b72a8958e134ba372808abe9cc1a0c0125e6"
)
"""Image of the share check, by digest of the multi-platform index (docker-library/repo-info, 2026-08).

From the mirror of Docker's official images on ECR Public: Docker Hub limits pulls without a login by address, and a
stack's nodes share one. A digest names the content, so the mirror has this image or none.
"""

# renovate: datasource=docker depName=ghcr.io/open-webui/open-webui
OPEN_WEBUI_IMAGE = (
    "ghcr.io/open-webui/open-webui:v0.11.4@sha256:9591b13f13843c7721c2b8eaf7382846c81b3ffe126526d1888d1fed50c6a33f"
)
"""The web interface, by digest of the multi-platform index.

Not the slim image: it has no vector database of its own, and reads neither PDF nor Word files (open-webui 0.11.4,
retrieval/vector/factory.py, and CHANGELOG.md, "Slim searches only through pgvector" and "Slim document readers").
"""

# renovate: datasource=helm depName=keda registryUrl=https://kedacore.github.io/charts
KEDA_CHART = "2.20.2"
# renovate: datasource=helm depName=keda-add-ons-http registryUrl=https://kedacore.github.io/charts
HTTP_ADD_ON_CHART = "0.15.0"
KEDA_REPOSITORY = "https://kedacore.github.io/charts"

# renovate: datasource=helm depName=dcgm-exporter registryUrl=https://nvidia.github.io/dcgm-exporter/helm-charts
GPU_EXPORTER_CHART = "4.8.2"
GPU_EXPORTER_REPOSITORY = "https://nvidia.github.io/dcgm-exporter/helm-charts"

# renovate: datasource=helm depName=victoria-metrics-single registryUrl=https://victoriametrics.github.io/helm-charts
STORE_CHART = "0.45.0"
STORE_REPOSITORY = "https://victoriametrics.github.io/helm-charts"

# renovate: datasource=helm depName=grafana registryUrl=https://grafana-community.github.io/helm-charts
GRAFANA_CHART = "12.11.1"
GRAFANA_REPOSITORY = "https://grafana-community.github.io/helm-charts"
"""Grafana's own repository receives no more versions of this chart."""

# renovate: datasource=github-releases depName=awslabs/amazon-eks-ami
AMI_DATE = "20260714"
"""Release of the AL2023 AMIs, all variants: the newest whose contents could be read (decision 0110)."""
NVIDIA_DRIVER = 580
"""Driver branch in the NVIDIA variant of that release (580.159.03).

From v20260917 on, the variant holds two drivers and picks one by instance type at first boot (amazon-eks-ami#2768).
"""
GPU_AMI_TYPES = {"amd64": "AL2023_x86_64_NVIDIA", "arm64": "AL2023_ARM_64_NVIDIA"}
SYSTEM_AMI_TYPES = {"amd64": "AL2023_x86_64_STANDARD", "arm64": "AL2023_ARM_64_STANDARD"}

AMI_KUBERNETES = {"1.34": "1.34.9", "1.35": "1.35.6", "1.36": "1.36.2"}
"""Patch version of the kubelet in that release, by Kubernetes version. Source: amazon-eks-ami CHANGELOG, v20260714."""

# Add-on versions by Kubernetes version, as EKS offered them by default at the end of September 2026.
# renovate: datasource=aws-eks-addon depName=vpc-cni
VPC_CNI = {"1.34": "v1.22.4-eksbuild.3", "1.35": "v1.22.4-eksbuild.3", "1.36": "v1.22.4-eksbuild.3"}
# renovate: datasource=aws-eks-addon depName=kube-proxy
KUBE_PROXY = {"1.34": "v1.34.6-eksbuild.29", "1.35": "v1.35.3-eksbuild.29", "1.36": "v1.36.0-eksbuild.25"}
# renovate: datasource=aws-eks-addon depName=coredns
COREDNS = {"1.34": "v1.12.4-eksbuild.38", "1.35": "v1.13.2-eksbuild.31", "1.36": "v1.14.3-eksbuild.23"}
# renovate: datasource=aws-eks-addon depName=eks-pod-identity-agent
POD_IDENTITY_AGENT = {"1.34": "v1.3.10-eksbuild.3", "1.35": "v1.3.10-eksbuild.3", "1.36": "v1.3.10-eksbuild.3"}
# renovate: datasource=aws-eks-addon depName=aws-ebs-csi-driver
EBS_CSI_DRIVER = {"1.34": "v1.66.0-eksbuild.1", "1.35": "v1.66.0-eksbuild.1", "1.36": "v1.66.0-eksbuild.1"}

BOTH = frozenset({"amd64", "arm64"})
PARTS = (
    Part(name="the Ollama image", version=OLLAMA, architectures=BOTH),
    Part(name="the image of the share proof", version=PROBER_IMAGE.partition("@")[0], architectures=BOTH),
    Part(name="the NVIDIA device plugin", version=DEVICE_PLUGIN_CHART, architectures=BOTH),
    Part(name="node feature discovery", version=FEATURE_DISCOVERY_CHART, architectures=BOTH),
    Part(name="the EKS AMI for GPU nodes", version=AMI_DATE, architectures=frozenset(GPU_AMI_TYPES)),
)
"""Programs on GPU nodes, with the platforms of their images. Sources: the release workflows of
ollama/ollama, NVIDIA/k8s-device-plugin and kubernetes-sigs/node-feature-discovery at those versions, and
docker-library/repo-info."""


def ami_release(kubernetes: str) -> str:
    """`release_version` of a managed node group, e.g. `1.36.2-20260714`; the same for every variant."""
    return f"{AMI_KUBERNETES[kubernetes]}-{AMI_DATE}"
