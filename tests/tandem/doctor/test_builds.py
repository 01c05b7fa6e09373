"""What is pinned and may have been withdrawn: builds of add-ons, releases of AMIs."""

import pytest

from tests.tandem.account.emulated import Emulated
from tests.tandem.doctor.conftest import Cases
from tests.tandem.doctor.findings import finding, findings, summary

PINNED = {
    "vpc-cni": "v1.22.4-eksbuild.3",
    "kube-proxy": "v1.36.0-eksbuild.25",
    "coredns": "v1.14.3-eksbuild.23",
    "eks-pod-identity-agent": "v1.3.10-eksbuild.3",
    "aws-ebs-csi-driver": "v1.66.0-eksbuild.1",
}
"""What EKS offered for 1.36 at the end of September 2026."""
STANDARD = (
    "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/"
    "amazon-eks-node-al2023-x86_64-standard-1.36-v20260714/image_id"
)
NVIDIA = STANDARD.replace("standard", "nvidia")


@pytest.fixture
def offered(emulated: Emulated) -> Emulated:
    emulated.builds = {name: [version, "v0.0.1-eksbuild.1"] for name, version in PINNED.items()}
    emulated.parameters = {STANDARD: "ami-1", NVIDIA: "ami-2"}
    return emulated


def test_builds_that_eks_offers_are_fine(offered: Emulated, case: Cases) -> None:
    assert summary("add-on-builds", case("timeslice")) == [
        ("ok", f"EKS offers the {len(PINNED)} pinned builds for Kubernetes 1.36")
    ]


@pytest.mark.real_world(
    behaviour="EKS withdraws old builds of its add-ons, and refuses them: Addon version specified is not supported.",
    source="EKS API reference, CreateAddon, InvalidParameterException; DescribeAddonVersions",
)
@pytest.mark.parametrize("addon", PINNED)
def test_a_build_that_was_withdrawn_stops_up_and_the_default_is_named(
    offered: Emulated, case: Cases, addon: str
) -> None:
    offered.builds[addon] = ["v9.9.9-eksbuild.1", "v9.9.8-eksbuild.1"]
    found = finding("add-on-builds", case("timeslice"))
    assert found.verdict == "stops"
    assert found.found == f"EKS no longer offers {addon} {PINNED[addon]} for Kubernetes 1.36"
    assert "v9.9.9-eksbuild.1" in found.fix


def test_an_add_on_that_a_kubernetes_version_does_not_have_stops_up(offered: Emulated, case: Cases) -> None:
    offered.builds = {}
    found = findings("add-on-builds", case("timeslice"))
    assert {each.verdict for each in found} == {"stops"}
    assert len(found) == len(PINNED)


@pytest.mark.slow
@pytest.mark.real_world(
    behaviour="AWS publishes each AMI release for EKS under a parameter of its own, by architecture and variant.",
    source="karpenter-provider-aws pkg/providers/amifamily/al2023.go, resolvePath",
)
@pytest.mark.parametrize("stack", ["timeslice", "karpenter"])
def test_an_ami_release_that_was_withdrawn_stops_up(offered: Emulated, case: Cases, stack: str) -> None:
    assert finding("ami-releases", case(stack)).verdict == "ok"
    del offered.parameters[NVIDIA]
    found = finding("ami-releases", case(stack))
    assert found.verdict == "stops"
    assert found.found == "AWS does not publish amazon-eks-node-al2023-x86_64-nvidia-1.36-v20260714 in us-east-1"


@pytest.mark.parametrize("code", ["AccessDeniedException", "ThrottlingException"])
@pytest.mark.parametrize(
    ("check", "operation"), [("add-on-builds", "DescribeAddonVersions"), ("ami-releases", "GetParameters")]
)
def test_a_question_that_aws_does_not_answer_is_not_fine(
    offered: Emulated, case: Cases, check: str, operation: str, code: str
) -> None:
    offered.denied[operation] = code
    found = finding(check, case("timeslice"))
    assert (found.verdict, code in found.found) == ("unknown", True)
