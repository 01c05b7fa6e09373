"""What the control plane is made of: Go modules, the programs in each, and how they are linked."""

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field

from sandbox.control_plane import versions

COMPONENT_VERSION = "k8s.io/component-base/version"
"""Package whose variables say which Kubernetes this is; a build without them is v0.0.0, which charts refuse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A Go module and what is taken of it."""

    path: str
    version: str
    programs: Mapping[str, str]
    """Package of each program, by the program's file name."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Go variables set at link time, by package and name."""
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Files of the module, strung together as YAML documents, by the name that they get."""
    staged: bool = False
    """Whether the module replaces others by folders of its own, whose releases a dependent has to name instead."""


KWOK_STAGES = "kwok-stages.yaml"
_STAGES = ("node/fast/node-initialize", "pod/fast/pod-ready", "pod/fast/pod-complete", "pod/fast/pod-delete")
_MAJOR, _MINOR, _ = versions.KUBERNETES.split(".")

MODULES = (
    Module(path="go.etcd.io/etcd/server/v3", version=versions.ETCD, programs={"etcd": "go.etcd.io/etcd/server/v3"}),
    Module(path="helm.sh/helm/v3", version=versions.HELM, programs={"helm": "helm.sh/helm/v3/cmd/helm"}),
    Module(
        path="sigs.k8s.io/kwok",
        version=versions.KWOK,
        programs={"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
        files={KWOK_STAGES: tuple(f"kustomize/stage/{stage}.yaml" for stage in _STAGES)},
    ),
    Module(
        path="k8s.io/kubernetes",
        version=versions.KUBERNETES,
        programs={
            program: f"k8s.io/kubernetes/cmd/{program}"
            for program in ("kube-apiserver", "kube-scheduler", "kube-controller-manager")
        },
        variables={
            f"{COMPONENT_VERSION}.gitVersion": f"v{versions.KUBERNETES}",
            f"{COMPONENT_VERSION}.gitMajor": _MAJOR,
            f"{COMPONENT_VERSION}.gitMinor": _MINOR,
        },
        staged=True,
    ),
)
CERTIFICATE_MAKER = "make-certificate"
CERTIFICATE_SOURCE = "src/crypto/tls/generate_cert.go"
"""A program that comes with Go: makes a key, and a certificate that signs itself."""


def name() -> str:
    """Name of the folder for what this recipe makes on this kind of machine, e.g. `1.36.3-5c1f0a9be2d4`."""
    made = repr((MODULES, CERTIFICATE_SOURCE, platform.system(), platform.machine()))
    return f"{versions.KUBERNETES}-{hashlib.sha256(made.encode()).hexdigest()[:12]}"
