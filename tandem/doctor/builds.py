"""Checks of pinned versions that AWS may have withdrawn: builds of add-ons, releases of the nodes' AMI."""

from collections.abc import Iterator
from typing import Any

from sharing import versions
from tandem.doctor.case import ADDON, NODE_CLASS, NODE_GROUP, Case
from tandem.doctor.finding import Finding, ok, stops

AMI_NAMES = {
    "AL2023_x86_64_STANDARD": ("x86_64", "standard"),
    "AL2023_ARM_64_STANDARD": ("arm64", "standard"),
    "AL2023_x86_64_NVIDIA": ("x86_64", "nvidia"),
    "AL2023_ARM_64_NVIDIA": ("arm64", "nvidia"),
}
"""Architecture and variant in the names of AMIs, by EKS's AMI type."""
AMI_PARAMETER = (
    "/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/{arch}/{variant}/"
    "amazon-eks-node-al2023-{arch}-{variant}-{kubernetes}-{release}/image_id"
)
"""Where AWS publishes the id of an AMI release (karpenter-provider-aws, pkg/providers/amifamily/al2023.go)."""
MOST_PARAMETERS = 10
"""Names per call of `ssm:GetParameters`."""
ALIAS = "al2023@"


def check_addons(case: Case) -> Iterator[Finding]:
    """EKS still offers the pinned builds of its add-ons for this Kubernetes version."""
    stack, account = case.planned_stack, case.account()
    kubernetes = stack.plan.config.cluster.kubernetes
    resources = stack.resources(ADDON)
    fine = True
    for name, pinned in sorted((str(each.inputs["addonName"]), str(each.inputs["addonVersion"])) for each in resources):
        offered: dict[str, bool] = {}
        for page in account.pages("eks", "describe_addon_versions", addonName=name, kubernetesVersion=kubernetes):
            for build in (build for addon in page["addons"] for build in addon["addonVersions"]):
                offered[build["addonVersion"]] = _is_default(build, kubernetes)
        if pinned in offered:
            continue
        fine = False
        if not offered:
            fix = "Set `cluster.kubernetes` to a version that EKS supports."
            yield stops(f"EKS offers no {name} for Kubernetes {kubernetes}", fix)
            continue
        default = next((build for build, is_default in offered.items() if is_default), max(offered))
        fix = f"Update tandem, or pin {default} in sharing/versions.py."
        yield stops(f"EKS no longer offers {name} {pinned} for Kubernetes {kubernetes}", fix)
    if fine:
        yield ok(f"EKS offers the {len(resources)} pinned builds for Kubernetes {kubernetes}")


def _is_default(build: Any, kubernetes: str) -> bool:
    return any(
        each.get("clusterVersion") == kubernetes and each.get("defaultVersion")
        for each in build.get("compatibilities", ())
    )


def check_amis(case: Case) -> Iterator[Finding]:
    """AWS still publishes the pinned AMI releases for this Kubernetes version."""
    names = sorted(set(_ami_parameters(case)))
    client = case.account().client("ssm")
    withdrawn: list[str] = []
    for start in range(0, len(names), MOST_PARAMETERS):
        withdrawn += client.get_parameters(Names=names[start : start + MOST_PARAMETERS])["InvalidParameters"]
    for name in withdrawn:
        ami = name.split("/")[-2]
        yield stops(
            f"AWS does not publish {ami} in {case.region}", "Update tandem, or pin another in sharing/versions.py."
        )
    if not withdrawn:
        yield ok(f"AWS publishes {', '.join(name.split('/')[-2] for name in names)}")


def _ami_parameters(case: Case) -> Iterator[str]:
    stack = case.planned_stack
    for group in stack.resources(NODE_GROUP):
        arch, variant = AMI_NAMES[str(group.inputs["amiType"])]
        date = str(group.inputs["releaseVersion"]).partition("-")[2]
        yield AMI_PARAMETER.format(kubernetes=group.inputs["version"], arch=arch, variant=variant, release=f"v{date}")
    config = stack.plan.config
    types = {versions.GPU_AMI_TYPES[pool.smallest.arch] for pool in config.pools if pool.provisioner == "karpenter"}
    for node_class in stack.resources(NODE_CLASS):
        for term in node_class.inputs["spec"]["amiSelectorTerms"]:
            alias = str(term.get("alias", ""))
            for arch, variant in sorted(AMI_NAMES[type_] for type_ in types if alias.startswith(ALIAS)):
                release = alias.removeprefix(ALIAS)
                yield AMI_PARAMETER.format(
                    kubernetes=config.cluster.kubernetes, arch=arch, variant=variant, release=release
                )
