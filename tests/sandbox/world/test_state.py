"""The emulated state: ids, names, differences, leftovers, and a state file that is never reset silently."""

import re
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest

from sandbox.wire import UNKNOWN
from sandbox.world import World, tokens
from sandbox.world.providers.names import named
from tests.sandbox.world_pieces import Account, meta, refused

# Names.


def test_names_are_generated_as_in_the_bridge_and_then_kept() -> None:
    world = World()
    first = world.check(tokens.ROLE, "r", {}, None)
    assert first == {"name": first["name"], "__defaults": ["name"]}
    assert first["name"].startswith("r-")
    assert len(first["name"]) == len("r-") + 7
    assert world.check(tokens.ROLE, "r", {}, first)["name"] == first["name"]
    assert world.check(tokens.ROLE, "r", {}, None)["name"] != first["name"]
    assert world.check(tokens.ROLE, "r", {"name": "given"}, first) == {"name": "given"}
    assert world.check(tokens.ROLE, "r", {}, {"name": "given"})["name"] != "given"


def test_names_of_objects_are_generated_as_in_the_kubernetes_provider_and_then_kept() -> None:
    """pulumi-kubernetes provider/pkg/metadata/naming.go: 8 digits, and an annotation that says so."""
    world, annotations = World(), {"a": "b"}
    first = world.check(tokens.CONFIG_MAP, "c", {"metadata": {"annotations": annotations}, "data": {}}, None)
    name = first["metadata"]["name"]
    assert re.fullmatch("c-[0-9a-f]{8}", name)
    assert first == {"metadata": meta(name, annotations={"a": "b", "pulumi.com/autonamed": "true"}), "data": {}}
    assert world.check(tokens.CONFIG_MAP, "c", {}, first)["metadata"]["name"] == name
    assert world.check(tokens.CONFIG_MAP, "c", {}, {"metadata": meta("given")})["metadata"]["name"] != "given"
    for token, given in ((tokens.CONFIG_MAP, {"metadata": meta("given")}), (tokens.RELEASE, {"name": "given"})):
        assert world.check(token, "c", given, first) == given
    # Of two generated names, the new object can come first.
    new = {**first, "data": {"a": "b"}}
    assert not world.diff(tokens.CONFIG_MAP, first, new).delete_before_replace


@pytest.mark.parametrize(
    ("token", "key", "most"),
    # The longest generated names, from pulumi-aws provider/resources.go.
    [
        ("aws:iam/role:Role", "name", 64),
        ("aws:iam/policy:Policy", "name", 128),
        ("aws:ec2/launchTemplate:LaunchTemplate", "name", 125),
        ("aws:eks/cluster:Cluster", "name", 100),
        ("aws:eks/nodeGroup:NodeGroup", "nodeGroupName", 63),
        ("aws:cloudwatch/logGroup:LogGroup", "name", 512),
        ("aws:cloudwatch/eventRule:EventRule", "name", 64),
        ("aws:cloudwatch/eventTarget:EventTarget", "targetId", 64),
        ("aws:scheduler/schedule:Schedule", "name", 64),
        ("aws:scheduler/scheduleGroup:ScheduleGroup", "name", 64),
        ("aws:sqs/queue:Queue", "name", 80),
        ("aws:budgets/budget:Budget", "name", 255),
    ],
)
def test_a_type_gets_a_generated_name_of_limited_length(token: str, key: str, most: int) -> None:
    longest = "x" * (most - 8)

    def digits(count: int) -> str:
        return "0" * count

    assert named(token, longest, {}, None, digits)[key] == f"{longest}-0000000"
    with refused("ValidationError", f"longer than maximum length {most}"):
        named(token, f"{longest}x", {}, None, digits)


# Differences.

CHANGES = tomllib.loads((Path(__file__).resolve().parents[1] / "changes.toml").read_text(encoding="utf-8"))["change"]


@pytest.mark.parametrize("case", CHANGES, ids=[case["name"] for case in CHANGES])
def test_a_change_of_a_property_not_listed_as_updatable_is_a_replacement(case: dict[str, Any]) -> None:
    found = World().diff(case["type"], case["old"], case["new"])
    assert list(found.changed) == case["changed"]
    assert list(found.replaces) == case.get("replaces", [])
    assert found.delete_before_replace is case.get("deleted-first", False)


def test_a_null_or_empty_value_is_no_change() -> None:
    assert World().diff(tokens.VPC, {"cidrBlock": "a", "tags": None}, {"cidrBlock": "a", "tags": {}}).changed == ()


@pytest.mark.real_world(
    behaviour="The kubernetes provider reports an update, not a replacement, for objects that are entirely unknown",
    source="pulumi-kubernetes provider/pkg/provider/provider.go Diff and addPatchValueToDiff; diff_test.go",
)
@pytest.mark.parametrize("token", [tokens.NAMESPACE, tokens.CLAIM, tokens.JOB])
@pytest.mark.parametrize("old", [{"metadata": {"name": "n", "namespace": "m"}}, {"metadata": {}}, {}])
def test_an_object_that_is_entirely_unknown_is_updated(token: str, old: dict[str, Any]) -> None:
    found = World().diff(token, {**old, "spec": {"a": 1}}, {"metadata": UNKNOWN, "spec": {"a": 1}})
    assert (found.changed, found.replaces, found.delete_before_replace) == (("metadata",), (), False)


# Leftovers, and changes outside Pulumi.


def test_leftovers_are_unknown_resources_without_a_known_owner() -> None:
    account = Account()
    account.cluster(enabledClusterLogTypes=["api"])
    account.nodes(count=2)
    known = [one.key for one in account.world.entities() if one.made_by == "pulumi"]
    assert [one.type for one in account.world.leftovers(known)] == [tokens.LOG_GROUP]
    left = account.world.leftovers([key for key in known if key[0] != tokens.NODE_GROUP])
    assert {one.type for one in left} > {tokens.NODE_GROUP, "aws:ec2/instance:Instance", "kubernetes:core/v1:Node"}
    assert len(account.world.leftovers([])) == len(account.world.entities())


def test_a_resource_keeps_the_region_and_tags_of_its_provider_and_no_credentials() -> None:
    world, tags = World(), {"tags": {"team": "blue"}}
    given = {"region": "eu-west-1", "defaultTags": tags, "token": "secret"}
    identity, _ = world.create(tokens.VPC, "v", {"cidrBlock": "10.0.0.0/16"}, given)
    outputs = world.update(tokens.VPC, identity, {"cidrBlock": "10.0.0.0/16", "tags": {"a": "b"}})
    assert (outputs["region"], outputs["tagsAll"]) == ("eu-west-1", {"team": "blue", "a": "b"})
    assert "secret" not in str(world.entities())
    assert "tags" not in world.update(tokens.VPC, identity, {"cidrBlock": "10.0.0.0/16"})


def test_a_refused_call_takes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.world.world.time.sleep", lambda seconds: pytest.fail(f"it sleeps for {seconds} s"))
    with refused("InvalidVpcID.NotFound"):
        World(seconds_per_minute=2.0).create(tokens.SUBNET, "s", {"vpcId": "vpc-0"}, {})


def test_minutes_become_seconds_and_calls_run_in_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    world, slept, together = World(seconds_per_minute=2.0), list[float](), threading.Barrier(5)

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        together.wait(timeout=300)  # passes only once all five calls sleep at the same time

    monkeypatch.setattr("sandbox.world.world.time.sleep", sleep)
    threads = [threading.Thread(target=lambda: world.create(tokens.VPC, "v", {}, {})) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert slept == [pytest.approx(0.4)] * 5  # a VPC takes 0.2 minutes: durations.csv
    assert not together.broken
