"""`tandem images`: what people read, what programs read, and the script that copies everything to a registry."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.command import ROOT, call, on_screen
from tests.conftest import Golden

REGISTRY = "registry.example.com:5000/a-long-name-of-a-team/and-of-its-project"
ECR = "111122223333.dkr.ecr.eu-west-1.amazonaws.com/tandem"
DIGEST = "sha256:[0-9a-f]{64}"
pytestmark = pytest.mark.slow


def stack(folder: Path, name: str, **sections: object) -> str:
    """A copy of a stack file with other sections."""
    content = yaml.safe_load((ROOT / f"Pulumi.{name}.yaml").read_text(encoding="utf-8"))
    content["config"] |= {f"tandem:{key.replace('_', '-')}": value for key, value in sections.items()}
    path = folder / f"Pulumi.{name}.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("columns", [60, 80])
def test_no_reference_is_cut_or_folded(tmp_path: Path, columns: int) -> None:
    file = stack(tmp_path, "mig", registry=REGISTRY)
    code, screen = on_screen("images", file, columns=columns)
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen).splitlines()]
    for one in call("images", file, "--json").json["artifacts"]:
        assert f"{one['name']}:{one['version']}" in lines
        assert f"→ {one['copy']}" in lines
        assert (one["digest"] or "digest unknown") in lines
    assert code == 0


def test_the_screen_of_a_stack(golden: Golden) -> None:
    ended = call("images", "mig", columns=80)
    assert ended.returncode == 0
    assert max(map(len, ended.stdout.splitlines())) <= 80
    golden("images.txt", ended.stdout)


def test_programs_read_the_same(tmp_path: Path) -> None:
    read = call("images", stack(tmp_path, "dev", registry=REGISTRY), "--json").json
    assert (read["schema_version"], read["registry"]) == (1, REGISTRY)
    found = {one["name"]: one for one in read["artifacts"]}
    # Values of versions.py and of the table, written out.
    assert found["docker.io/ollama/ollama"] == {
        "kind": "image",
        "reference": "docker.io/ollama/ollama:0.32.15"
        "@sha256:57d60e686821ea81a7748a3ec8141308c8b8f95b27105713954abf7a6529e700",
        "name": "docker.io/ollama/ollama",
        "version": "0.32.15",
        "digest": "sha256:57d60e686821ea81a7748a3ec8141308c8b8f95b27105713954abf7a6529e700",
        "pinned_by": "digest",
        "pulled_by": "node",
        "compressed_mib": 3110.0,
        "copy": f"{REGISTRY}/ollama/ollama:0.32.15",
        "used_by": ["chart ollama"],
    }
    assert found["public.ecr.aws/docker/library/python"]["used_by"] == ["OllamaPair", "ShareProof"]
    assert found["public.ecr.aws/docker/library/python"]["compressed_mib"] is None
    chart = found["https://helm.otwld.com/ollama"]
    assert (chart["pulled_by"], chart["copy"]) == ("pulumi", f"{REGISTRY}/charts/ollama:1.77.0")
    assert call("images", "dev", "--json").json["artifacts"][0]["copy"] is None


def copies(folder: Path, file: str, existing: bool = False) -> list[str]:
    """The calls that the script makes, from programs that only write down their arguments."""
    script = folder / "copy.sh"
    script.write_text(call("images", file, "--format", "copy").stdout, encoding="utf-8")
    programs, calls = folder / "bin", folder / "calls"
    programs.mkdir()
    for name in ("crane", "helm", "aws"):
        program = programs / name
        fails = "case $2 in describe-*) exit 254;; esac\n" if name == "aws" and not existing else ""
        program.write_text(f'#!/bin/sh\necho "{name} $*" >>{calls}\n{fails}', encoding="utf-8")
        program.chmod(0o755)
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "TMPDIR": str(folder)}
    done = subprocess.run(["sh", script], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr, [*folder.glob("tmp.*")]) == (0, "", [])
    return calls.read_text(encoding="utf-8").splitlines()


@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no `sh`")
def test_the_script_copies_each_image_by_its_pin_and_each_chart(tmp_path: Path) -> None:
    made = [re.sub(r"\S*/tmp\.\w+", "FOLDER", line) for line in copies(tmp_path, stack(tmp_path, "dev", registry=ECR))]
    done = [line for line in made if not line.startswith("aws")]
    assert done == [
        "crane copy docker.io/ollama/ollama"
        "@sha256:57d60e686821ea81a7748a3ec8141308c8b8f95b27105713954abf7a6529e700"
        f" {ECR}/ollama/ollama:0.32.15",
        f"crane copy nvcr.io/nvidia/k8s-device-plugin:v0.20.0 {ECR}/nvidia/k8s-device-plugin:v0.20.0",
        "crane copy public.ecr.aws/docker/library/python"
        "@sha256:9662417aace5ae7b8e2609cce472b72a8958e134ba372808abe9cc1a0c0125e6"
        f" {ECR}/docker/library/python:3.13.14-slim-trixie",
        f"crane copy registry.k8s.io/nfd/node-feature-discovery:v0.19.0 {ECR}/nfd/node-feature-discovery:v0.19.0",
        "crane copy registry.k8s.io/pause"
        "@sha256:ee6521f290b2168b6e0935a181d4cff9be1ac3f505666ef0e3c98fae8199917a"
        f" {ECR}/pause:3.10",
        "helm pull ollama --repo https://helm.otwld.com --version 1.77.0 --destination FOLDER",
        f"helm push FOLDER/ollama-1.77.0.tgz oci://{ECR}/charts",
        "helm pull nvidia-device-plugin --repo https://nvidia.github.io/k8s-device-plugin --version 0.20.0"
        " --destination FOLDER",
        f"helm push FOLDER/nvidia-device-plugin-0.20.0.tgz oci://{ECR}/charts",
        "crane copy registry.k8s.io/nfd/charts/node-feature-discovery:0.19.0"
        f" {ECR}/charts/node-feature-discovery:0.19.0",
    ]
    names = [line.rpartition(" ")[2] for line in made if line.startswith("aws ecr create-repository")]
    assert names == [
        f"tandem/{one}"
        for one in (
            "ollama/ollama",
            "nvidia/k8s-device-plugin",
            "docker/library/python",
            "nfd/node-feature-discovery",
            "pause",
            "charts/ollama",
            "charts/nvidia-device-plugin",
            "charts/node-feature-discovery",
        )
    ]


def test_repositories_that_exist_are_not_created_again(tmp_path: Path) -> None:
    made = copies(tmp_path, stack(tmp_path, "dev", registry=ECR), existing=True)
    asked = [line for line in made if line.startswith("aws")]
    call = "aws ecr describe-repositories --region eu-west-1 --registry-id 111122223333 --repository-names"
    assert len(asked) == 8
    assert all(line.startswith(call) for line in asked)


def test_another_registry_needs_no_repositories(tmp_path: Path) -> None:
    file = stack(tmp_path, "dev", registry=REGISTRY)
    assert not [line for line in copies(tmp_path, file) if line.startswith("aws")]
    script = (tmp_path / "copy.sh").read_text(encoding="utf-8")
    assert on_screen("images", file, "--format", "copy")[1].endswith(script), "no terminal breaks its lines"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--format", "copy"), "error: the stack dev has no registry to copy to. Write `tandem:registry: "),
        (("--format", "copy", "--json"), '"error": "--json and --format copy exclude each other. Pass one of them."'),
    ],
)
def test_what_cannot_be_copied_is_an_error(arguments: tuple[str, ...], said: str) -> None:
    ended = call("images", "dev", *arguments)
    assert ended.returncode == 2
    assert said in ended.stdout + ended.stderr


def test_a_refused_stack_has_no_list(tmp_path: Path) -> None:
    ended = call("images", stack(tmp_path, "dev", registry="https://registry.example.com"))
    assert ended.returncode == 1
    assert "registry: 'https://registry.example.com' begins with a scheme." in ended.stdout
