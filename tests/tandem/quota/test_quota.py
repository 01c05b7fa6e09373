"""`tandem quota`: the account's quotas compared with the stack's needs."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import pytest
from botocore.exceptions import ClientError

from sharing.names import TAG_ZONES
from sharing.problems import Problem
from sharing.sections.existing import ExistingCluster, ExistingVpc
from sharing.sections.zones import Group
from tandem.aws.quota import SPOT_ROLE, Placed, _given_subnets, _offered, _sizes, _vcpus, zones_of
from tandem.aws.session import Account
from tests.rows import read_yaml
from tests.tandem.aws import scripted
from tests.tandem.aws.conftest import Run
from tests.tandem.aws.creation import TRUST, Creation
from tests.tandem.aws.emulated import ENOUGH, OURS, OWNER, Emulated

pytestmark = pytest.mark.slow

Scene = dict[str, Any]
SCENES = read_yaml(Path(__file__).with_name("quota.yaml"))
STACK = """config:
  aws:region: us-east-1
  tandem:sharing: {{mode: timeslice, replicas: 2}}
  tandem:gpu-nodes: {{instance-types: [{types}], capacity: {capacity}, desired: 1, max: {most}}}
  tandem:models: [{{name: "llama3.2:1b", cache: {cache}}}]
  tandem:cluster: {{nat: per-zone, zones: {zones}}}
"""


@pytest.fixture
def generous(emulated: Emulated, creation: Creation) -> Emulated:
    emulated.quotas = dict(ENOUGH)
    creation.iam.create_role(RoleName=SPOT_ROLE, AssumeRolePolicyDocument=TRUST)
    return emulated


Quota = Callable[..., tuple[int, dict[str, Any]]]


def stack(folder: Path, **changed: Any) -> str:
    values = {"types": "g4dn.xlarge", "capacity": "spot", "most": 2, "cache": "node", "zones": 2, **changed}
    path = folder / "Pulumi.tried.yaml"
    path.write_text(STACK.format(**values), encoding="utf-8")
    return str(path)


@pytest.fixture
def quota(tandem: Run, tmp_path: Path) -> Quota:
    """Calls it for a stack; returns its exit code and its JSON."""

    def call(**changed: Any) -> tuple[int, dict[str, Any]]:
        code, out, _ = tandem("quota", stack(tmp_path, **changed), "--json")
        return code, json.loads(out)

    return call


def row(shown: dict[str, Any], code: str) -> dict[str, Any]:
    (found,) = [one for one in shown["quotas"] if one["code"] == code]
    return dict(found)


@pytest.mark.real_world(
    behaviour="AWS documents no quota for P6 spot instances",
    source="https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html",
)
@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_the_quotas_of_the_account_are_compared(
    emulated: Emulated, creation: Creation, quota: Quota, scene: Scene
) -> None:
    emulated.quotas = dict(ENOUGH)
    if scene.get("spot-role", True):
        creation.iam.create_role(RoleName=SPOT_ROLE, AssumeRolePolicyDocument=TRUST)
    for name, value in scene.get("account", {}).items():
        setattr(emulated, name, {**emulated.quotas, **value} if name == "quotas" else value)
    emulated.quotas = {code: limit for code, limit in emulated.quotas.items() if limit is not None}
    code, shown = quota(**scene.get("stack", {}))
    assert (code, shown.get("verdict")) == (scene["code"], scene["verdict"])
    for kind in ("problems", "warnings"):
        found = shown.get(kind, [])
        # Those of a file that is refused are objects.
        said = [str(Problem(**{**one, "place": None})) if isinstance(one, dict) else one for one in found]
        assert said == scene.get(kind, []), kind
    for each, values in scene.get("rows", {}).items():
        assert row(shown, each).items() >= values.items()
    assert len(shown.get("quotas", [])) == (5 if scene["verdict"] else 0)


def test_other_instances_count_as_used_and_the_stacks_own_do_not(
    generous: Emulated, creation: Creation, quota: Quota
) -> None:
    _, empty = quota()
    own = {**OURS, "tandem:stack": "tried"}
    # Others have two of each, because every running instance counts.
    for tags in (own, {}, {}):
        creation.instances(tags, "g5.xlarge", spot=True)
        creation.instances(tags, "g4dn.2xlarge")
        creation.instances(tags, "c5.4xlarge")
        creation.elastic_IPs(tags)
        creation.VPCs(tags)
    for tags, name in ((own, "tandem-tried"), ({}, "one"), ({}, "another")):
        creation.EKS_clusters(tags, name=name)
    stopped = creation.instances({}, "g5.xlarge", spot=True)
    creation.ec2.stop_instances(InstanceIds=[stopped])
    _, shown = quota()
    more = {one["code"]: one["used"] - row(empty, one["code"])["used"] for one in shown["quotas"]}
    assert more == {"L-3819A6DF": 8, "L-1216C47A": 32, "L-0263D0A3": 2, "L-F678F1CE": 2, "L-1194D53C": 2}
    _, on_demand = quota(capacity="on-demand")
    assert row(on_demand, "L-DB2E81BA")["used"] == 16
    generous.quotas["L-3819A6DF"] = 15.0
    code, shown = quota()
    assert (code, row(shown, "L-3819A6DF")["verdict"]) == (1, "short at max")
    assert row(shown, "L-3819A6DF")["way_out"].endswith("--desired-value 24")


def test_a_refused_file_is_reported_before_any_request(emulated: Emulated, tmp_path: Path, tandem: Run) -> None:
    code, out, _ = tandem("quota", stack(tmp_path, types="g4dn.extra"))
    assert (code, "gpu-nodes.instance-types[0]" in out) == (1, True)
    assert emulated.calls == []


@pytest.mark.parametrize("written", ["[{roleArn: %s}]", '\'[{"roleArn": "%s"}]\''])
def test_the_account_is_that_of_the_stack_files_role(
    generous: Emulated, tmp_path: Path, tandem: Run, written: str
) -> None:
    path = Path(stack(tmp_path))
    roles = written % "arn:aws:iam::444455556666:role/deployer"
    path.write_text(path.read_text().replace("config:\n", f"config:\n  aws:assumeRoles: {roles}\n", 1))
    assert json.loads(tandem("quota", str(path), "--json")[1])["account"] == "444455556666"


def asked(**page: Any) -> Any:
    """An account that answers every list with this page: moto answers even wrong requests."""
    account = create_autospec(Account, instance=True, region="us-east-1")
    account.pages.return_value = [page]
    return account


def test_sizes_are_requested_for_a_hundred_types_at_a_time() -> None:
    """EC2 API reference, DescribeInstanceTypes: `InstanceType.N` takes at most 100 items."""
    names = [f"x9.{number}xlarge" for number in range(101)]
    account = asked(InstanceTypes=[{"InstanceType": "x9.7xlarge", "VCpuInfo": {"DefaultVCpus": 28}}])
    sizes = _sizes(account, ["t3.medium", "g4dn.xlarge", *names])
    requests = [call.kwargs["InstanceTypes"] for call in account.pages.call_args_list]
    assert requests == [names[:100], names[100:]]
    assert (sizes["x9.7xlarge"], sizes["t3.medium"], sizes["g4dn.xlarge"]) == (28, 2, 4)


def test_instances_count_from_their_start_to_their_end() -> None:
    """Quotas are about running instances (EC2 User Guide, ec2-on-demand-instances), which a pending one is soon."""
    account: Any = scripted.Account(Reservations=[])
    assert _vcpus(account, OWNER) == {}
    filters = '[{"Name": "instance-state-name", "Values": ["pending", "running"]}]'
    assert account.requests == [f'ec2 describe_instances {{"Filters": {filters}}}']


THEIRS = {"eks describe_cluster": {"cluster": {"resourcesVpcConfig": {"subnetIds": ["of-the-cluster"]}}}}
NO_CLUSTER = {"eks describe_cluster": ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "DescribeCluster")}
IN_A_CLUSTER, IN_A_VPC = {"name": "platform"}, {"id": "vpc-0000000a", "subnets": ["subnet-0000000a", "subnet-0000000b"]}
OF_NODES = {"node_subnets": ["subnet-0000000c"]}


@pytest.mark.parametrize(
    ("sections", "answers", "subnets"),
    [
        ({}, {}, []),
        ({"vpc": ExistingVpc.model_validate(IN_A_VPC)}, {}, ["subnet-0000000a", "subnet-0000000b"]),
        ({"vpc": ExistingVpc.model_validate(IN_A_VPC | OF_NODES)}, {}, ["subnet-0000000c"]),
        ({"existing": ExistingCluster.model_validate(IN_A_CLUSTER)}, THEIRS, ["of-the-cluster"]),
        ({"existing": ExistingCluster.model_validate(IN_A_CLUSTER | OF_NODES)}, THEIRS, ["subnet-0000000c"]),
        ({"existing": ExistingCluster.model_validate(IN_A_CLUSTER)}, NO_CLUSTER, []),
    ],
)
def test_nodes_go_to_the_subnets_that_the_file_names_or_else_to_those_of_the_control_plane(
    sections: dict[str, Any], answers: dict[str, Any], subnets: list[str]
) -> None:
    account: Any = scripted.Account(answers)
    config: Any = SimpleNamespace(cluster=SimpleNamespace(**{"existing": None, "vpc": None, **sections}))
    assert _given_subnets(account, config) == subnets


def test_offers_are_requested_by_zone_and_type() -> None:
    """EC2 API reference, DescribeInstanceTypeOfferings: without a location type it answers by region."""
    sold = [("g4dn.xlarge", "us-east-1a"), ("g4dn.xlarge", "us-east-1b"), ("g4dn.xlarge", "us-east-1-bos-1a")]
    account = asked(InstanceTypeOfferings=[{"InstanceType": name, "Location": zone} for name, zone in sold])
    zones = ["us-east-1a", "us-east-1b"]
    assert _offered(account, zones, ["g4dn.xlarge"]) == {"g4dn.xlarge": {*zones}}
    filters = [{"Name": "instance-type", "Values": ["g4dn.xlarge"]}]
    account.pages.assert_called_once_with(
        "ec2", "describe_instance_type_offerings", LocationType="availability-zone", Filters=filters
    )


def test_the_zones_of_a_deployed_stack_are_those_of_its_vpc_and_of_its_groups() -> None:
    """The cluster names only the subnets of its control plane."""
    group = {"labels": {"tandem/pool": "gpu"}, "tags": {TAG_ZONES: "us-east-1b"}, "instanceTypes": ["g4dn.xlarge"]}
    account: Any = scripted.Account(
        {
            "ec2 describe_subnets": {
                "Subnets": [{"VpcId": "v", "AvailabilityZone": f"us-east-1{letter}"} for letter in "ba"]
            },
            "eks list_nodegroups": {"nodegroups": ["g"]},
            "eks describe_nodegroup": {"nodegroup": group},
        }
    )
    cluster = {"name": "c", "resourcesVpcConfig": {"subnetIds": ["s"]}}
    placed = Group(zones=("us-east-1b",), types=frozenset({"g4dn.xlarge"}))
    assert zones_of(account, cluster) == Placed(("us-east-1a", "us-east-1b"), {"gpu": placed})
    assert account.requests == [
        'ec2 describe_subnets {"SubnetIds": ["s"]}',
        'ec2 describe_subnets {"Filters": [{"Name": "vpc-id", "Values": ["v"]}]}',
        'eks list_nodegroups {"clusterName": "c"}',
        'eks describe_nodegroup {"clusterName": "c", "nodegroupName": "g"}',
    ]
