"""Building programs with a fake Go, and keeping programs running."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from sharing import artifacts
from sharing import versions as deployed
from tests.control_plane import recipe, versions
from tests.control_plane.api import Api
from tests.control_plane.build import BuildError, GoMissingError, built, cache_folder
from tests.control_plane.kept import StartError
from tests.control_plane.running import ControlPlane

FAKE_GO = """#!{python} -IS
import json, os, pathlib, sys, time
here, arguments = pathlib.Path({folder!r}), sys.argv[1:]
with (here / "calls").open("a") as calls:
    calls.write(" ".join(arguments) + "\\n")
if arguments[:2] == ["mod", "download"]:
    module = here / arguments[-1].partition("@")[0].rpartition("/")[2]
    for file in {files!r}:
        (module / file).parent.mkdir(parents=True, exist_ok=True)
        (module / file).write_text("kind: " + file)
    print(json.dumps({{"GoMod": "go.mod", "Dir": str(module)}}))
elif arguments[:2] == ["mod", "edit"]:
    staged = {{"Old": {{"Path": "k8s.io/api"}}, "New": {{"Path": "./staging/src/k8s.io/api"}}}}
    older = {{"Old": {{"Path": "k8s.io/metrics"}}, "New": {{"Path": "k8s.io/metrics", "Version": "v0.35.5"}}}}
    print(json.dumps({{"Go": "1.26.0", "Replace": [staged, older]}}))
elif arguments[0] == "env":
    print(here)
elif arguments[0] == "build":
    if (here / "fail").exists() and (here / "fail").read_text() in arguments[-1]:
        sys.exit("noise\\n" * 30 + "no space left on device")
    time.sleep(0.05)
    if pathlib.Path("go.mod").exists():
        (here / "go.mod").write_text(pathlib.Path("go.mod").read_text())
    out = arguments[arguments.index("-o") + 1]
    packages = arguments[arguments.index("-o") + 2 :]
    for path in [out + package.rpartition("/")[2] for package in packages] if out.endswith("/") else [out]:
        pathlib.Path(path).write_text("a program")
"""
PROGRAMS = {"etcd", "helm", "kwok", "kube-apiserver", "kube-scheduler", "kube-controller-manager"}


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a `go` that notes its calls and writes empty programs; the only one on the PATH."""
    folder = tmp_path / "go"
    folder.mkdir()
    recipes = (recipe.CONTROL_PLANE, recipe.KARPENTER, recipe.METRICS, recipe.KEDA_DEFINITIONS, recipe.KEDA)
    modules = [module for each in recipes for module in each.modules]
    files = [part for module in modules for parts in module.files.values() for part in parts]
    (folder / "go").write_text(FAKE_GO.format(python=sys.executable, folder=str(folder), files=files), encoding="utf-8")
    (folder / "go").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def calls(go: Path) -> list[str]:
    return (go / "calls").read_text(encoding="utf-8").splitlines()


@pytest.mark.slow
def test_a_build_makes_every_program_of_its_release_and_is_taken_from_the_cache_without_go(
    go: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    folder = built(shown.append, cache=cache)
    names = {path.name for path in folder.iterdir()}
    assert names == {*PROGRAMS, recipe.CERTIFICATE_MAKER, recipe.KWOK_STAGES}
    assert shown[0] == f"Building etcd {versions.ETCD} (1 of 4)"
    assert len(shown) == len(recipe.CONTROL_PLANE.modules)
    assert (folder / recipe.KWOK_STAGES).read_text(encoding="utf-8").count("kind: ") == 4
    lines = (go / "go.mod").read_text(encoding="utf-8").splitlines()
    assert f"require k8s.io/kubernetes v{versions.KUBERNETES}" in lines
    # Releases of the libraries that Kubernetes keeps in folders.
    assert f"replace k8s.io/api => k8s.io/api v0.{versions.KUBERNETES.removeprefix('1.')}" in lines
    [call] = [call for call in calls(go) if "kube-apiserver" in call]
    assert f"-X {recipe.COMPONENT_VERSION}.gitVersion=v{versions.KUBERNETES}" in call
    monkeypatch.setenv("PATH", "")
    assert built(cache=cache) == folder


def test_without_go_one_line_says_so(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GoMissingError, match=r"^the control plane is built with Go, and `go` is not on the PATH"):
        built(cache=cache)


@pytest.mark.slow
def test_a_failed_build_says_the_module_and_what_go_said_last_and_leaves_nothing_nor_does_one_after_a_kill(
    go: Path, cache: Path
) -> None:
    (go / "fail").write_text("kwok", encoding="utf-8")
    with pytest.raises(BuildError) as raised:
        built(cache=cache)
    lines = str(raised.value).splitlines()
    assert lines[0] == f"building sigs.k8s.io/kwok {versions.KWOK} failed at `go build`:"
    assert lines[-1] == "  no space left on device"
    assert len(lines) < 20
    assert [path.name for path in cache.iterdir()] == [f"{recipe.CONTROL_PLANE.name}.lock"]
    (go / "fail").unlink()
    # The folder that a killed build leaves.
    (cache / f"{recipe.CONTROL_PLANE.name}.making-gone" / "programs").mkdir(parents=True)
    folder = built(cache=cache)
    assert sorted(cache.iterdir()) == [folder, cache / f"{recipe.CONTROL_PLANE.name}.lock"]


@pytest.mark.slow
def test_of_builds_at_once_one_builds_and_the_others_wait(go: Path, cache: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        folders = set(pool.map(lambda _: built(cache=cache), range(3)))
    assert len(folders) == 1
    assert len([call for call in calls(go) if "helm.sh/helm/v3/cmd/helm" in call]) == 1


def test_other_pins_have_a_folder_of_their_own() -> None:
    other = replace(recipe.CONTROL_PLANE, modules=recipe.CONTROL_PLANE.modules[:-1])
    assert other.name != recipe.CONTROL_PLANE.name


@pytest.mark.slow
def test_karpenter_lies_beside_the_control_plane_and_is_built_only_when_asked_for(go: Path, cache: Path) -> None:
    plane = built(cache=cache)
    assert not any("sigs.k8s.io/karpenter" in call for call in calls(go))
    shown: list[str] = []
    folder = built(shown.append, recipe=recipe.KARPENTER, cache=cache)
    assert folder.parent == plane.parent
    assert folder.name.startswith(f"karpenter-{versions.KARPENTER}-")
    names = {path.name for path in folder.iterdir()}
    assert names == {recipe.KARPENTER_PROGRAM, recipe.KARPENTER_CRDS, recipe.KWOK_NODE_CLASS_CRD}
    assert shown == [
        f"Building karpenter {versions.KARPENTER} (1 of 2)",
        f"Building {recipe.KARPENTER_CRDS} {versions.KARPENTER_AWS} (2 of 2)",
    ]
    # A module without programs provides only files.
    [call] = [call for call in calls(go) if "karpenter-provider-aws" in call]
    assert call == f"mod download -json github.com/aws/karpenter-provider-aws@v{versions.KARPENTER_AWS}"
    crds = (folder / recipe.KARPENTER_CRDS).read_text(encoding="utf-8")
    assert crds.split("\n---\n")[0] == "kind: pkg/apis/crds/karpenter.sh_nodepools.yaml"


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "tandem" / "control-plane"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "tandem" / "control-plane"


@pytest.mark.slow
def test_the_engines_of_metrics_are_built_without_the_sdks_of_clouds(go: Path, cache: Path) -> None:
    folder = built(recipe=recipe.METRICS, cache=cache)
    names = {path.name for path in folder.iterdir()}
    assert names == {recipe.PROMETHEUS_TOOL, recipe.STORE, recipe.OPERATOR_CRDS}
    [call] = [one for one in calls(go) if one.endswith("/cmd/promtool")]
    assert call.startswith("build -tags remove_all_sd -ldflags ")


@pytest.mark.slow
def test_keda_is_built_with_the_versions_that_its_module_replaces_and_its_definitions_without_a_build(
    go: Path, cache: Path
) -> None:
    folder = built(recipe=recipe.KEDA_DEFINITIONS, cache=cache)
    assert {path.name for path in folder.iterdir()} == {recipe.KEDA_CRDS, recipe.KEDA_HTTP_CRDS}
    assert not any(call.startswith("build") for call in calls(go))
    assert len((folder / recipe.KEDA_CRDS).read_text(encoding="utf-8").split("\n---\n")) == 6
    folder = built(recipe=recipe.KEDA, cache=cache)
    assert {path.name for path in folder.iterdir()} == {recipe.KEDA_PROGRAM, "interceptor", "scaler"}
    lines = (go / "go.mod").read_text(encoding="utf-8").splitlines()
    assert f"require github.com/kedacore/keda/v2 v{versions.KEDA}" in lines
    assert "replace k8s.io/metrics => k8s.io/metrics v0.35.5" in lines


def test_kubernetes_karpenter_keda_and_the_store_are_of_the_releases_that_clusters_get() -> None:
    assert versions.KUBERNETES.startswith(f"{deployed.KUBERNETES}.")
    assert versions.KARPENTER == versions.KARPENTER_AWS == deployed.KARPENTER_CHART
    # Charts of KEDA have the numbers of their programs (Chart.yaml, appVersion).
    assert (versions.KEDA, versions.KEDA_HTTP) == (deployed.KEDA_CHART, deployed.HTTP_ADD_ON_CHART)
    assert artifacts.find("docker.io/victoriametrics/victoria-metrics").version == f"v{versions.VICTORIA_METRICS}"


SLEEPER = "import os, pathlib, signal; pathlib.Path('pid').write_text(str(os.getpid())); signal.pause()"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPER


def wait_until(known: Callable[[], bool]) -> None:
    while not known():
        time.sleep(0.02)


def pid_in(folder: Path) -> int:
    path = folder / "pid"
    wait_until(lambda: path.exists() and bool(path.read_text(encoding="utf-8")))
    return int(path.read_text(encoding="utf-8"))


def is_deleted(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_kept_program_ends_when_anyone_who_started_it_is_killed(tmp_path: Path) -> None:
    holder = (
        "import sys, time, pathlib; from tests.control_plane.kept import Kept; "
        f"Kept([sys.executable, '-c', {SLEEPER!r}], pathlib.Path({str(tmp_path / 'log')!r})); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", holder]) as process:
        pid = pid_in(tmp_path)
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: is_deleted(pid))


@pytest.fixture
def plane(tmp_path: Path) -> ControlPlane:
    """A control plane without any part."""
    return ControlPlane(tmp_path, tmp_path, Api("", tmp_path, ""), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("program", [SLEEPER, STUBBORN], ids=["willing", "stubborn"])
def test_a_part_runs_while_its_block_does(plane: ControlPlane, program: str) -> None:
    with plane.part(Path(sys.executable), "-c", program):
        pid = pid_in(plane.folder)
        plane.check()
        assert not is_deleted(pid)
    assert is_deleted(pid)
    plane.check()


def test_a_part_gets_its_environment_beside_ours_and_is_reported_with_its_last_lines_when_it_ends_by_itself(
    plane: ControlPlane,
) -> None:
    ends = "import os, sys; sys.exit(f\"{os.environ['KUBECONFIG']} {'PATH' in os.environ}\")"
    with (
        plane.part(Path(sys.executable), "-c", ends, environment={"KUBECONFIG": "here"}),
        pytest.raises(StartError, match=r"ended with status 1:\n  here True$"),
    ):
        plane.wait_for("something was ready", lambda: False)


def test_the_log_of_a_part_that_starts_again_goes_on(plane: ControlPlane) -> None:
    log = plane.folder / f"{Path(sys.executable).name}.log"
    for words in (["first"], ["first", "second"]):
        program = f"import time; print({words[-1]!r}, flush=True); time.sleep(60)"
        with plane.part(Path(sys.executable), "-c", program):
            wait_until(partial(has_said, log, words))


def has_said(log: Path, words: list[str]) -> bool:
    return log.read_text(encoding="utf-8").split() == words
