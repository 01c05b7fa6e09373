"""Recipes for builds from Go modules: the programs of each, their linking, and their folder in the cache."""

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.control_plane import versions

COMPONENT_VERSION = "k8s.io/component-base/version"
"""Package whose variables hold the version of Kubernetes; without them it is v0.0.0, which charts refuse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A Go module, and the programs and files to take from it."""

    path: str
    version: str
    programs: Mapping[str, str] = field(default_factory=dict)
    """Package of each program, by the program's file name."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Go variables set at link time, by package and name."""
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Files of the module, joined as YAML documents, by the name of the result."""
    tags: tuple[str, ...] = field(default=(), repr=False)
    """Build tags. They are no part of the folder's name."""
    staged: bool = False
    """Whether the module replaces others, which a dependent must repeat: its own folders by their releases."""


CERTIFICATE_MAKER = "make-certificate"
CERTIFICATE_SOURCE = "src/crypto/tls/generate_cert.go"
"""A program of Go's distribution: makes a key and a self-signed certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Modules that are built together, into one folder of the cache for each recipe."""

    title: str
    """The readable first part of the folder's name."""
    modules: tuple[Module, ...]
    certificate_maker: bool = False

    @property
    def name(self) -> str:
        """Name of the folder for this recipe on this kind of machine, e.g. `1.36.3-5c1f0a9be2d4`."""
        sources = (CERTIFICATE_SOURCE,) if self.certificate_maker else ()
        made = repr((self.modules, *sources, platform.system(), platform.machine()))
        return f"{self.title}-{hashlib.sha256(made.encode()).hexdigest()[:12]}"


KWOK_STAGES = "kwok-stages.yaml"
_STAGES = ("node/fast/node-initialize", "pod/fast/pod-ready", "pod/fast/pod-complete", "pod/fast/pod-delete")
_MAJOR, _MINOR, _ = versions.KUBERNETES.split(".")

CONTROL_PLANE = Recipe(
    title=versions.KUBERNETES,
    modules=(
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
    ),
    certificate_maker=True,
)
"""API server, scheduler, controllers, etcd, fake kubelets, and helm."""

KARPENTER_PROGRAM = "karpenter"
KARPENTER_CRDS = "karpenter-crds.yaml"
KWOK_NODE_CLASS_CRD = "kwok-node-class-crd.yaml"
_CRDS = (
    "karpenter.sh_nodepools",
    "karpenter.sh_nodeclaims",
    "karpenter.sh_nodeoverlays",
    "karpenter.k8s.aws_ec2nodeclasses",
)

KARPENTER = Recipe(
    title=f"karpenter-{versions.KARPENTER}",
    modules=(
        Module(
            path="sigs.k8s.io/karpenter",
            version=versions.KARPENTER,
            programs={KARPENTER_PROGRAM: "sigs.k8s.io/karpenter/kwok"},
            variables={"sigs.k8s.io/karpenter/pkg/operator.Version": versions.KARPENTER},
            files={KWOK_NODE_CLASS_CRD: ("kwok/apis/crds/karpenter.kwok.sh_kwoknodeclasses.yaml",)},
        ),
        # The core also has these, but without AWS's additional rules for labels, which a cluster on EKS has.
        Module(
            path="github.com/aws/karpenter-provider-aws",
            version=versions.KARPENTER_AWS,
            files={KARPENTER_CRDS: tuple(f"pkg/apis/crds/{crd}.yaml" for crd in _CRDS)},
        ),
    ),
)
"""Karpenter's core with its provider for fake nodes; needs a control plane."""

PROMETHEUS_TOOL = "promtool"
STORE = "victoria-metrics"
OPERATOR_CRDS = "prometheus-operator-crds.yaml"

METRICS = Recipe(
    title=f"metrics-{versions.PROMETHEUS}",
    modules=(
        Module(
            path="github.com/prometheus/prometheus",
            version=versions.PROMETHEUS,
            programs={PROMETHEUS_TOOL: "github.com/prometheus/prometheus/cmd/promtool"},
            # Otherwise, the build takes three times as long, for the SDKs of all clouds.
            tags=("remove_all_sd",),
        ),
        Module(
            path="github.com/VictoriaMetrics/VictoriaMetrics",
            version=versions.VICTORIA_METRICS,
            programs={STORE: "github.com/VictoriaMetrics/VictoriaMetrics/app/victoria-metrics"},
        ),
        Module(
            path="github.com/prometheus-operator/prometheus-operator",
            version=versions.PROMETHEUS_OPERATOR,
            files={
                OPERATOR_CRDS: tuple(
                    f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml"
                    for kind in ("podmonitors", "prometheusrules")
                )
            },
        ),
    ),
)
"""The engines that evaluate dashboards and alerts, and the custom resource definitions of the monitors."""

KEDA_CRDS = "keda-crds.yaml"
KEDA_HTTP_CRDS = "keda-http-crds.yaml"
_KEDA, _KEDA_HTTP = "github.com/kedacore/keda/v2", "github.com/kedacore/http-add-on"
_KEDA_KINDS = (
    "eventing.keda.sh_cloudeventsources",
    "eventing.keda.sh_clustercloudeventsources",
    "keda.sh_clustertriggerauthentications",
    "keda.sh_scaledjobs",
    "keda.sh_scaledobjects",
    "keda.sh_triggerauthentications",
)
_KEDA_HTTP_KINDS = ("http.keda.sh_httpscaledobjects", "http.keda.sh_interceptorroutes")

KEDA_DEFINITIONS = Recipe(
    title=f"keda-definitions-{versions.KEDA}",
    modules=(
        Module(
            path=_KEDA,
            version=versions.KEDA,
            files={KEDA_CRDS: tuple(f"config/crd/bases/{kind}.yaml" for kind in _KEDA_KINDS)},
        ),
        Module(
            path=_KEDA_HTTP,
            version=versions.KEDA_HTTP,
            files={KEDA_HTTP_CRDS: tuple(f"config/crd/bases/{kind}.yaml" for kind in _KEDA_HTTP_KINDS)},
        ),
    ),
)
"""The custom resource definitions of KEDA and its HTTP add-on. Nothing is compiled."""

KEDA_PROGRAM = "keda"

KEDA = Recipe(
    title=f"keda-{versions.KEDA}",
    modules=(
        Module(path=_KEDA, version=versions.KEDA, programs={KEDA_PROGRAM: f"{_KEDA}/cmd/operator"}, staged=True),
        Module(
            path=_KEDA_HTTP,
            version=versions.KEDA_HTTP,
            programs={program: f"{_KEDA_HTTP}/{program}" for program in ("interceptor", "scaler")},
        ),
    ),
)
"""KEDA's operator, and the two programs of its HTTP add-on that we install; needs a control plane."""
