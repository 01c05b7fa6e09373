"""Which texts name a registry, in which region ECR has it, and what the copies of images are called there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharing import artifacts
from sharing.sections.registry import correct, ecr_region, is_registry

ACCOUNT = "111122223333"
REGISTRY = "registry.example.com:5000/team/tandem"
# Source: distribution/reference v0.6.0, regexp_test.go and reference_test.go: names with a domain.
RIGHT = (
    "registry.example.com/tandem",
    "registry.example.com",
    "registry.example.com:5000",
    "registry.example.com:5000/a/b/c",
    "localhost/tandem",
    "localhost:5000/tandem",
    "192.0.2.7:5000/tandem",
    "a-b.example.com/team_one/team__two/team---three/v1.2",
    f"{ACCOUNT}.dkr.ecr.eu-west-1.amazonaws.com/tandem",
    f"{ACCOUNT}.dkr.ecr.eu-west-1.amazonaws.com",
    # 200 characters, so that 55 of a repository's 255 are left for the name of an image.
    f"registry.example.com/{'a' * 179}",
)
WRONG = (
    "tandem",
    "acme/tandem",
    "-a.example.com/tandem",
    "registry.example.com./tandem",
    "registry.example.com:/tandem",
    "registry.example.com:port/tandem",
    "registry.example.com/tandem:v1",
    "registry.example.com/a___b",
    "registry.example.com/a..b",
    "registry.example.com/-a",
    "registry.example.com/a-",
    "registry.example.com/täg",
    "registry.example.com/a\n",
    f"registry.example.com/{'a' * 180}",
)


@pytest.mark.parametrize("text", RIGHT)
def test_a_host_with_a_path_names_a_registry(text: str) -> None:
    assert is_registry(text)


@pytest.mark.parametrize("text", WRONG)
def test_another_text_names_none(text: str) -> None:
    assert not is_registry(text)


@given(st.text(st.sampled_from("aZ0.:/@-_ \n") | st.characters(), max_size=40))
def test_what_a_message_offers_is_right(text: str) -> None:
    assert correct(text) == "" or is_registry(correct(text))


@given(st.sampled_from(RIGHT), st.sampled_from(("https://{}", "oci://{}/", "{}/", " {} ", "docker://me:pw@{}")))
def test_a_message_offers_the_registry_of_an_address(registry: str, written: str) -> None:
    assert correct(written.format(registry)) == registry


@pytest.mark.parametrize(
    ("registry", "region"),
    [
        # Source: amazon-ecr-credential-helper, ecr-login/api/client_test.go: the forms of a private registry's host.
        (f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/tandem", "us-east-1"),
        (f"{ACCOUNT}.dkr.ecr-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        (f"{ACCOUNT}.dkr.ecr.cn-north-1.amazonaws.com.cn/tandem", "cn-north-1"),
        (f"{ACCOUNT}.dkr-ecr.us-west-2.on.aws/tandem", "us-west-2"),
        ("public.ecr.aws/tandem", ""),
        ("registry.example.com/tandem", ""),
        (f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com.example.com/tandem", ""),
    ],
)
def test_a_private_registry_on_ecr_has_a_region(registry: str, region: str) -> None:
    assert ecr_region(registry) == region


@pytest.mark.parametrize(
    ("reference", "copy"),
    [
        # The examples of distribution/reference v0.6.0, normalize_test.go, and each form of version.
        ("python:3.13", "library/python:3.13"),
        ("docker.io/python", "library/python"),
        ("ollama/ollama:0.32.15", "ollama/ollama:0.32.15"),
        ("ghcr.io/kedacore/keda:2.20.2", "kedacore/keda:2.20.2"),
        ("localhost/team/app", "team/app"),
        ("host:5000/team/app:1@sha256:00ff", "team/app:1@sha256:00ff"),
        ("registry.k8s.io/pause@sha256:00ff", "pause@sha256:00ff"),
    ],
)
def test_a_copy_keeps_repository_tag_and_digest(reference: str, copy: str) -> None:
    assert artifacts.redirect(reference, REGISTRY) == f"{REGISTRY}/{copy}"


def test_each_operand_of_the_gpu_operator_has_its_place() -> None:
    # clusterpolicy_types.go, imagePath: repository, image and version of an operand are apart. `gfd` runs the plugin's.
    nvidia = {"repository": f"{REGISTRY}/nvidia"}
    assert artifacts.redirect_chart("gpu-operator", REGISTRY) == {
        "operator": nvidia,
        "validator": nvidia,
        "devicePlugin": nvidia,
        "gfd": nvidia,
        "migManager": {"repository": f"{REGISTRY}/nvidia/cloud-native"},
        "dcgmExporter": {"repository": f"{REGISTRY}/nvidia/k8s"},
    }


def test_a_chart_without_images_has_no_values() -> None:
    assert artifacts.redirect_chart("karpenter-crd", REGISTRY) == {}


def test_a_copy_of_a_chart_has_a_folder_of_its_own() -> None:
    karpenter = artifacts.find("oci://public.ecr.aws/karpenter/karpenter")
    assert karpenter.copy_in(REGISTRY) == f"{REGISTRY}/charts/karpenter"
    assert artifacts.find("registry.k8s.io/pause").copy_in(REGISTRY) == f"{REGISTRY}/pause"
