"""Versions of the control plane's sources, one constant a line. `sharing/versions.py` has the deployed ones."""

# renovate: datasource=go depName=k8s.io/kubernetes
KUBERNETES = "1.36.3"
"""API server, scheduler and controllers; of the minor version that EKS clusters get (a test compares the two)."""
# renovate: datasource=go depName=go.etcd.io/etcd/server/v3
ETCD = "3.7.3"
# renovate: datasource=go depName=sigs.k8s.io/kwok
KWOK = "0.8.0"
"""Fake kubelets: nodes are ready, pods run, nothing is executed."""
# renovate: datasource=go depName=helm.sh/helm/v3
HELM = "3.22.0"
"""Pulumi-kubernetes renders charts with Helm 3."""

# renovate: datasource=go depName=sigs.k8s.io/karpenter
KARPENTER = "1.14.1"
"""Karpenter's core, of the chart that clusters get (a test compares the three)."""
# renovate: datasource=go depName=github.com/aws/karpenter-provider-aws
KARPENTER_AWS = "1.14.1"
"""Its provider for AWS: only its custom resource definitions are used."""

# renovate: datasource=go depName=github.com/prometheus/prometheus
PROMETHEUS = "0.316.0"
"""Version 3.16.0, whose Go module has another number."""
# renovate: datasource=go depName=github.com/VictoriaMetrics/VictoriaMetrics
VICTORIA_METRICS = "1.150.0"
"""The store, of the chart that clusters get (a test compares the two)."""
# renovate: datasource=go depName=github.com/prometheus-operator/prometheus-operator
PROMETHEUS_OPERATOR = "0.85.0"
"""Only its custom resource definitions are used."""

# renovate: datasource=go depName=github.com/kedacore/keda/v2
KEDA = "2.20.2"
"""Its operator, of the chart that clusters get (a test compares the two)."""
# renovate: datasource=go depName=github.com/kedacore/http-add-on
KEDA_HTTP = "0.15.0"
"""Interceptor, scaler and operator of the HTTP add-on, of the chart that clusters get (a test compares the two)."""
