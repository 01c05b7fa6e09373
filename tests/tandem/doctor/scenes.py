"""The scenes of `scenes.yaml`, on a machine without programs and in an emulated account."""

import base64
import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from moto.eks.models import eks_backends

from sharing.sections.provider import AssumedRole
from tandem.deployed.endpoints import NotConnectedError
from tandem.doctor.case import RELEASE, Access, Case, Stack
from tests.rows import read_yaml
from tests.tandem.aws.creation import Creation
from tests.tandem.aws.emulated import ACCOUNT, CLUSTER, ENOUGH, OURS, REGION, Emulated
from tests.tandem.doctor.findings import findings

Scene = dict[str, Any]
GROUPS = read_yaml(Path(__file__).with_name("scenes.yaml"))
SCENES = pytest.mark.parametrize(
    "scene",
    [pytest.param(scene, id=f"{group}, {title}") for group, some in GROUPS.items() for title, scene in some.items()],
)
PUBLIC = "public.ecr.aws"
ELSEWHERE = ("DOCKER_CONFIG", "HELM_CONFIG_HOME", "HELM_REGISTRY_CONFIG", "XDG_CONFIG_HOME")
PINNED = {
    "vpc-cni": "v1.22.4-eksbuild.3",
    "kube-proxy": "v1.36.0-eksbuild.25",
    "coredns": "v1.14.3-eksbuild.23",
    "eks-pod-identity-agent": "v1.3.10-eksbuild.3",
    "aws-ebs-csi-driver": "v1.66.0-eksbuild.1",
}
"""The builds that EKS offered for 1.36 at the end of September 2026."""


def configured(case: Case, **keys: Any) -> Case:
    """The case with keys of its stack file changed."""
    assert case.stack
    plan = case.stack.plan
    case.stack = Stack(replace(plan, config=plan.config.model_copy(update=keys)), case.stack.planned)
    return case


def with_charts(case: Case, *charts: str) -> Case:
    """The case with releases of only these charts."""
    assert case.stack
    releases: Any = [SimpleNamespace(type=RELEASE, inputs={"chart": chart}) for chart in charts]
    case.stack = Stack(case.stack.plan, replace(case.stack.planned, graph=releases))
    return case


def keep_login(path: Path, login: Any) -> str:
    """Writes a login as `aws ecr-public get-login-password | docker login`, or this entry."""
    if "expiration" in login:
        login = {"auth": _base64(f"AWS:{_base64({'payload': 'p', 'datakey': 'd', **login})}")}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"auths": {PUBLIC: login, "other": {}}}))
    return str(login["auth"]) if "auth" in login else ""


def _base64(some: Any) -> str:
    return base64.b64encode((some if isinstance(some, str) else json.dumps(some)).encode()).decode()


def secret(name: str, version: int, status: str, namespace: str = "ollama") -> dict[str, Any]:
    """A revision as Helm stores it (helm pkg/storage/driver/secrets.go, newSecretsObject)."""
    return {
        "metadata": {
            "name": f"sh.helm.release.v1.{name}.v{version}",
            "namespace": namespace,
            "labels": {"owner": "helm", "name": name, "status": status, "version": str(version)},
        },
        "type": "helm.sh/release.v1",
        "data": {"release": "secret"},
    }


def with_releases(chosen: Any, releases: Any) -> Any:
    """A cluster with these revisions, or one that cannot be reached. A killed `up` has not written its outputs."""
    assert chosen.context == CLUSTER
    assert chosen.cluster["server"].startswith("https://")
    # As `aws eks update-kubeconfig` writes it (aws-cli, customizations/eks/update_kubeconfig.py).
    token = ["--region", REGION, "eks", "get-token", "--cluster-name", CLUSTER, "--output", "json"]
    assert chosen.user["exec"]["args"][:8] == token

    def secrets(labels: Any) -> list[dict[str, Any]]:
        assert labels == {"owner": "helm"}
        if isinstance(releases, str):
            raise NotConnectedError(releases, passing=True)
        return [secret(*release) for release in releases]

    return nullcontext(SimpleNamespace(secrets=secrets))


@dataclass
class Stage:
    """The place where scenes are played."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    emulated: Emulated
    creation: Creation
    case: Callable[..., Case]
    program: Callable[..., None]
    secret: str = ""
    """A text that no finding may show."""

    def play(self, scene: Scene) -> None:
        self.dress(scene)
        keys = dict(scene.get("keys", {}))
        if roles := keys.get("assume_roles"):
            keys["assume_roles"] = [AssumedRole.model_validate(role) for role in roles]
        for check, wanted in scene["finds"].items():
            case = self.case(scene.get("stack", "timeslice"), scene.get("region", REGION), scene.get("profile"))
            case = configured(case, **keys) if keys else case
            found = findings(check, with_charts(case, *scene["charts"]) if "charts" in scene else case)
            expected = [wanted] if isinstance(wanted[0], str) else wanted
            assert len(found) == len(expected), (check, found)
            for one, (verdict, *texts) in zip(found, expected, strict=True):
                assert one.verdict == verdict, one
                assert not self.secret or self.secret[:12] not in one.text + one.fix
                for said, text in zip((one.text, one.fix), [*texts, ""], strict=False):
                    assert re.fullmatch(".*".join(map(re.escape, text.split("…"))), said), (said, text)

    def dress(self, scene: Scene) -> None:
        """Prepares machine and account as the scene requires."""
        self.monkeypatch.setenv("HOME", str(self.folder))
        self.monkeypatch.setattr("platform.system", lambda: "Linux")
        for name in ELSEWHERE:
            self.monkeypatch.delenv(name, raising=False)
        for name, value in scene.get("env", {}).items():
            if value is None:
                self.monkeypatch.delenv(name)
            else:
                self.monkeypatch.setenv(name, value.replace("~", str(self.folder)))
        for name, said in scene.get("programs", {}).items():
            self.program(name, **({"prints": said} if isinstance(said, str) else said))
        for name, text in scene.get("files", {}).items():
            if text is not None:
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / name).write_text(text)
        for name, login in scene.get("logins", {}).items():
            self.secret = keep_login(self.folder / name, login)
        self.emulated.quotas = dict(ENOUGH)
        if scene.get("builds"):
            self.emulated.builds = {name: [version, "v0.0.1-eksbuild.1"] for name, version in PINNED.items()}
        for name, value in scene.get("aws", {}).items():
            mixed = {**(getattr(self.emulated, name) or {}), **value}
            setattr(self.emulated, name, {key: one for key, one in mixed.items() if one is not None})
        if who := scene.get("accepted"):
            caller = who if isinstance(who, str) else f"arn:aws:iam::{ACCOUNT}:user/anna"
            someone: Any = SimpleNamespace(id=ACCOUNT, caller=caller)
            self.monkeypatch.setattr(Case, "access", property(lambda _: Access(account=someone)))
        for role in scene.get("roles", ()):
            self.creation.IAM_roles({}, role)
        if "up" in scene or "releases" in scene:
            self.deploy(**scene.get("up", {}))
        connect = partial(with_releases, releases=scene.get("releases", ()))
        self.monkeypatch.setattr("tandem.deployed.kubernetes.cluster", connect)

    def deploy(self, status: str = "ACTIVE", tags: Any = OURS, zones: str = "", groups: Any = (), **more: Any) -> None:
        """A deployed stack. moto's node groups are always ACTIVE and without issues."""
        vpc = self.creation.VPCs({})
        for number, zone in enumerate(zones):
            place = {"CidrBlock": f"10.1.{number}.0/24", "AvailabilityZone": f"{REGION}{zone}"}
            self.creation.subnet = self.creation.subnets({}, VpcId=vpc, **place)
        self.creation.EKS_clusters(tags, CLUSTER)
        cluster = eks_backends[ACCOUNT][REGION].clusters[CLUSTER]
        cluster.status = status
        for own, group in dict(groups).items():
            named = {**OURS, "Name": group.get("name", "tandem-gpu-group"), **group.get("tags", {})}
            place = {"labels": group.get("labels", {}), "instanceTypes": group.get("types", [])}
            self.creation.node_groups(named, CLUSTER, nodegroupName=own, **place)
            made = cluster.nodegroups[own]
            made.status, made.health = group["status"], {"issues": group.get("issues", [])}
        for own, state in more.get("add-ons", {}).items():
            self.emulated.addons[CLUSTER, own], self.emulated.addon_status[own] = OURS, state


Play = Callable[[Scene], None]
