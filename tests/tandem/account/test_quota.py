"""`tandem quota`: what the account allows against what the stack needs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tandem.command import main
from tandem.deployed.aws.quota import SPOT_ROLE
from tests.tandem.account.creation import TRUST, Creation
from tests.tandem.account.emulated import CLUSTER, ENOUGH, OURS, REGION, Emulated

Capture = pytest.CaptureFixture[str]
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
def quota(emulated: Emulated, tmp_path: Path, capsys: Capture) -> Quota:
    """Calls it for a stack; its exit code, and what it says to machines."""

    def call(**changed: Any) -> tuple[int, dict[str, Any]]:
        code = main(["quota", stack(tmp_path, **changed), "--json"])
        return code, json.loads(capsys.readouterr().out)

    return call


def row(told: dict[str, Any], code: str) -> dict[str, Any]:
    (found,) = [one for one in told["quotas"] if one["code"] == code]
    return dict(found)


def test_a_generous_account_is_enough(generous: Emulated, quota: Quota) -> None:
    code, told = quota()
    assert (code, told["verdict"], told["problems"], told["warnings"]) == (0, "ok", [], [])
    assert {one["code"] for one in told["quotas"]} == {
        "L-3819A6DF",
        "L-1216C47A",
        "L-0263D0A3",
        "L-F678F1CE",
        "L-1194D53C",
    }
    assert {one["verdict"] for one in told["quotas"]} == {"ok"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "verdict", "code"),
    [
        (16.0, "ok", 0),
        (15.0, "short while replacing", 0),
        (8.0, "short while replacing", 0),
        (7.0, "short at max", 1),
        (4.0, "short at max", 1),
        (3.0, "short", 1),
    ],
)
def test_a_quota_is_short_now_or_at_max(
    generous: Emulated, quota: Quota, limit: float, verdict: str, code: int
) -> None:
    generous.quotas["L-3819A6DF"] = limit
    found, told = quota()
    mine = row(told, "L-3819A6DF")
    assert (found, mine["verdict"], mine["needed"], mine["needed_at_max"]) == (code, verdict, 4, 8)
    # Two nodes of 4 vCPUs at most, and two more while their group is replaced.
    assert mine["needed_while_replacing"] == 16
    way_out = (
        "aws service-quotas request-service-quota-increase --region us-east-1 --service-code ec2 "
        "--quota-code L-3819A6DF --desired-value 16"
    )
    assert mine["way_out"] == (way_out if verdict != "ok" else "")


@pytest.mark.slow
def test_what_others_run_is_used_and_what_the_stack_runs_is_not(
    generous: Emulated, creation: Creation, quota: Quota
) -> None:
    _, empty = quota()
    own = {**OURS, "tandem:stack": "tried"}
    # Two of everything that others have: an instance counts as often as it runs.
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
    _, told = quota()
    more = {one["code"]: one["used"] - row(empty, one["code"])["used"] for one in told["quotas"]}
    assert more == {"L-3819A6DF": 8, "L-1216C47A": 32, "L-0263D0A3": 2, "L-F678F1CE": 2, "L-1194D53C": 2}
    _, on_demand = quota(capacity="on-demand")
    assert row(on_demand, "L-DB2E81BA")["used"] == 16
    generous.quotas["L-3819A6DF"] = 15.0
    code, told = quota()
    assert (code, row(told, "L-3819A6DF")["verdict"]) == (1, "short at max")
    assert row(told, "L-3819A6DF")["way_out"].endswith("--desired-value 24")


def test_a_quota_that_was_never_set_has_awss_default(generous: Emulated, quota: Quota) -> None:
    del generous.quotas["L-3819A6DF"]
    generous.default_quotas["L-3819A6DF"] = 0.0
    code, told = quota()
    assert (code, row(told, "L-3819A6DF")["limit"]) == (1, 0.0)
    generous.default_quotas.clear()
    code, told = quota()
    assert (code, told["verdict"], row(told, "L-3819A6DF")["verdict"]) == (2, "unknown", "unknown")
    assert told["warnings"] == ["AWS does not say how much All G and VT Spot Instance Requests allows"]


@pytest.mark.real_world(
    behaviour="AWS documents no quota for P6 spot instances",
    source="https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html",
)
def test_a_quota_that_aws_does_not_document_could_not_be_checked(generous: Emulated, quota: Quota) -> None:
    code, told = quota(types="p6-b200.48xlarge", most=1)
    assert (code, told["verdict"], row(told, "")["limit"]) == (2, "unknown", None)
    assert "AWS does not say how much P6 Spot Instance Requests allows" in told["warnings"]


def test_a_region_with_too_few_zones_is_short(generous: Emulated, quota: Quota) -> None:
    code, told = quota(zones=6)
    assert code == 1
    # moto has six, and in one of them, use1-az3, EKS has no control plane.
    assert told["problems"] == [
        "cluster.zones: us-east-1 has 5 zones in which EKS runs (got 6). Write `zones: 5` or fewer."
    ]


def test_local_zones_and_zones_that_are_down_do_not_count(generous: Emulated, quota: Quota) -> None:
    # EKS refuses subnets of local zones (EKS User Guide, network-reqs). DescribeAvailabilityZones lists them with these
    # statuses (EC2 API reference, `AvailabilityZone`).
    generous.zones = [
        ("us-east-1a", "use1-az1", "available", "opt-in-not-required"),
        ("us-east-1b", "use1-az2", "unavailable", "opt-in-not-required"),
        ("us-east-1d", "use1-az6", "available", "opt-in-not-required"),
        ("us-east-1-bos-1a", "use1-bos1-az1", "available", "opted-in"),
        ("us-east-1-nyc-1a", "use1-nyc1-az1", "available", "not-opted-in"),
    ]
    code, told = quota(zones=3)
    assert code == 1
    assert told["problems"][0] == (
        "cluster.zones: EKS runs in 2 zones of us-east-1 (us-east-1a, us-east-1d). Write `zones: 2` or fewer."
    )


@pytest.mark.parametrize(
    ("gpu", "problem", "warning"),
    [
        ("ab", "", ""),
        ("df", "", ""),
        ("d", "", "g4dn.xlarge is not offered in us-east-1a"),
        # EKS has no control plane in us-east-1e, which is use1-az3 for moto.
        (
            "e",
            "no zone of the stack (us-east-1a, us-east-1b) sells g4dn.xlarge. No other zone of the region sells them "
            "to this account. Write other types, or take another region.",
            "",
        ),
    ],
)
def test_types_must_be_offered_in_the_zones_that_the_stack_takes(
    generous: Emulated, quota: Quota, gpu: str, problem: str, warning: str
) -> None:
    generous.offers = {"g4dn.xlarge": gpu, "t3.medium": "abcdf"}
    code, told = quota()
    path = "gpu-nodes.instance-types: "
    assert told["problems"] == ([path + problem] if problem else [])
    assert told["warnings"] == ([path + warning] if warning else [])
    assert code == (1 if problem else 0)


def test_the_role_of_spot_is_missed_only_where_spot_is_wanted(emulated: Emulated, quota: Quota) -> None:
    emulated.quotas = dict(ENOUGH)
    code, told = quota()
    assert code == 0
    assert "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com" in told["warnings"][0]
    assert quota(capacity="on-demand")[1]["warnings"] == []


def test_a_refused_file_is_told_before_anybody_is_asked(emulated: Emulated, tmp_path: Path, capsys: Capture) -> None:
    assert main(["quota", stack(tmp_path, types="g4dn.extra")]) == 1
    assert "gpu-nodes.instance-types[0]" in capsys.readouterr().out
    assert emulated.calls == []


def test_the_table_and_the_way_out_are_told_for_people(generous: Emulated, tmp_path: Path, capsys: Capture) -> None:
    generous.quotas["L-3819A6DF"] = 0.0
    assert main(["quota", stack(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert f"Quotas for tried in account 123456789012, {REGION}" in out
    assert "--quota-code L-3819A6DF --desired-value 16\n" in out
    [header] = [line for line in out.splitlines() if line.strip().startswith("quota ")]
    assert header.split() == ["quota", "limit", "used", "needed", "at", "max", "replacing", "verdict"]
    assert all(len(line) <= 80 for line in out.splitlines() if not line.startswith("aws "))
    assert CLUSTER not in out


@pytest.mark.slow
@pytest.mark.parametrize("written", ["[{roleArn: %s}]", '\'[{"roleArn": "%s"}]\''])
def test_the_account_is_that_of_the_role_in_the_stack_file(
    generous: Emulated, tmp_path: Path, capsys: Capture, written: str
) -> None:
    path = Path(stack(tmp_path))
    roles = written % "arn:aws:iam::444455556666:role/deployer"
    path.write_text(path.read_text().replace("config:\n", f"config:\n  aws:assumeRoles: {roles}\n", 1))
    main(["quota", str(path), "--json"])
    assert json.loads(capsys.readouterr().out)["account"] == "444455556666"
