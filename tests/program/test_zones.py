"""Zones of whole stacks, run in this process with different offers of AWS."""

from collections.abc import Callable
from typing import Any

import pulumi
import pytest

from sandbox.cloud.answers import Cloud
from sandbox.cloud.aws.offers import OFFERINGS, ZONES, offerings
from sandbox.graph import Graph, plain
from sandbox.preview.program import run
from sharing.names import PROJECT
from stacks import volume_zones
from stacks.deploy import deploy
from tests.program.conftest import graph_with, judge_with, plan_of, source_of

SUBNET = "aws:ec2/subnet:Subnet"
NODE_POOL = "kubernetes:karpenter.sh/v1:NodePool"
UI = {"enabled": True, "admin-email": "ops@example.com"}


def graph_of(name: str, letters: str) -> Graph:
    """The stack in an account to which GPU types are sold in these zones of us-east-1 alone."""
    cloud = Cloud(answers={OFFERINGS: sold_in(letters)})
    return run(lambda: deploy(plan_of(name)), project=PROJECT, stack=name, cloud=cloud)


def sold_in(letters: str) -> Callable[[Any], Any]:
    """EC2's answer where GPU types are sold in these zones of us-east-1 alone."""
    own = {name: [f"us-east-1{letter}" for letter in letters] for name in ("g4dn.xlarge", "g4dn.2xlarge")}
    return lambda question: offerings(question, own)


def zones_of(graph: Graph) -> str:
    return "".join(sorted({plain(resource.inputs)["availabilityZone"][-1] for resource in graph.of_type(SUBNET)}))


@pytest.mark.real_world(
    behaviour="Karpenter starts a node only in a zone that sells its type, and a volume keeps the node in its zone",
    source="karpenter-provider-aws pkg/providers/instancetype/offering/base_resolver.go, itZones.Has(zone)",
)
def test_karpenters_volumes_are_where_its_types_are_sold() -> None:
    graph = graph_of("karpenter-volumes", "df")
    assert zones_of(graph) == "df"
    volume = plain(graph.named("tandem-ollama-llama2-7b-volume").inputs)
    [pool] = graph.of_type(NODE_POOL)
    wanted = {
        requirement["key"]: requirement["values"]
        for requirement in plain(pool.inputs)["spec"]["template"]["spec"]["requirements"]
    }
    assert volume["availabilityZone"] == "us-east-1d"
    assert wanted["topology.kubernetes.io/zone"] == ["us-east-1d"]


def test_karpenter_gets_the_subnets_of_all_zones() -> None:
    graph = graph_of("karpenter", "f")
    [node_class] = graph.of_type("kubernetes:karpenter.k8s.aws/v1:EC2NodeClass")
    assert zones_of(graph) == "af"
    assert len(plain(node_class.inputs)["spec"]["subnetSelectorTerms"]) == 2


@pytest.mark.parametrize("stack", ["karpenter", "timeslice", "volumes"])
def test_a_stack_whose_types_nobody_sells_is_refused_in_a_preview(stack: str) -> None:
    with pytest.raises(pulumi.RunError, match=r"^gpu-nodes.instance-types: no zone of the stack .* sells g4dn"):
        graph_of(stack, "")


@pytest.mark.parametrize(("down", "expected"), [("", "ab"), ("a", "bc"), ("ab", "cd")])
def test_zones_without_an_outage_come_first(down: str, expected: str) -> None:
    def zones(question: Any) -> dict[str, list[str]]:
        letters = [one for one in "abcdf" if one not in (down if question.args.get("state") == "available" else "")]
        return {"names": [f"us-east-1{letter}" for letter in letters]}

    cloud = Cloud(answers={ZONES: zones})
    assert (
        zones_of(run(lambda: deploy(plan_of("timeslice")), project=PROJECT, stack="timeslice", cloud=cloud)) == expected
    )


def test_a_plan_says_nothing_about_an_account_that_it_does_not_know() -> None:
    cluster = source_of("mig").sections.get("cluster", {})
    named = {**cluster, "zone-names": ["us-east-1c", "us-east-1f"]}
    assert zones_of(graph_with("mig", {"cluster": named})) == "cf"


def test_a_zone_in_which_eks_does_not_run_is_refused_in_a_preview() -> None:
    """In the emulated account, us-east-1c is use1-az3."""
    cluster = {**source_of("timeslice").sections["cluster"], "zone-names": ["us-east-1c", "us-east-1f"]}
    plan, cloud = judge_with("timeslice", {"cluster": cluster}).plan(), Cloud(answers={OFFERINGS: sold_in("abdf")})
    with pytest.raises(
        pulumi.RunError, match=r"^cluster.zone-names: us-east-1c cannot be used: .* us-east-1b, us-east-1d"
    ):
        run(lambda: deploy(plan), project=PROJECT, stack="timeslice", cloud=cloud)


def deploy_again(name: str, letters: str = "abcdef") -> Graph:
    """The deployed stack; EKS's answers place its GPU nodes in us-east-1b. GPU types are sold in these zones."""
    plan = plan_of(name)
    answers = {
        "aws:eks/getClusters:getClusters": {"names": [f"tandem-{plan.stack}"]},
        "aws:eks/getNodeGroups:getNodeGroups": {"names": ["gpu-1234"]},
        "aws:eks/getNodeGroup:getNodeGroup": {
            "labels": {"tandem/pool": "gpu"},
            "tags": {"tandem:zones": "us-east-1b"},
            "instanceTypes": [*plan.config.pools[0].instance_types],
        },
    }
    asked: dict[str, Any] = {token: lambda question, answer=answer: answer for token, answer in answers.items()}
    asked[OFFERINGS] = sold_in(letters)
    return run(lambda: deploy(plan), project=PROJECT, stack=plan.stack, cloud=Cloud(answers=asked))


def test_a_group_that_is_there_keeps_its_zones_and_types() -> None:
    """Other zones sell its types as well."""
    built = deploy_again("timeslice")
    group = plain(built.named("tandem-gpu-group").inputs)
    assert zones_of(built) == "ab"
    assert (group["tags"]["tandem:zones"], len(group["subnetIds"])) == ("us-east-1b", 1)


def test_nodes_whose_type_is_sold_out_stay_with_their_volume_and_the_fix_is_about_that() -> None:
    built = deploy_again("volumes", "")
    assert plain(built.named("tandem-ollama-llama2-7b-volume").inputs)["availabilityZone"] == "us-east-1b"
    [warning] = {log.message for log in built.logs if "does not sell" in log.message}
    assert "A volume binds the pool to this zone" in warning


def page_zone(graph: Graph) -> str:
    return str(plain(graph.named("tandem-ui-accounts-and-documents-volume").inputs)["availabilityZone"])


def test_the_only_system_node_stays_in_the_zone_of_the_pages_volume() -> None:
    """A new one in another zone could not mount it."""
    graph = graph_with("dev", {"ui": UI})
    [subnet] = plain(graph.named("tandem-system").inputs)["subnetIds"]
    [there] = [one for one in graph.of_type(SUBNET) if one.id == subnet]
    assert plain(there.inputs)["availabilityZone"] == page_zone(graph) == "us-east-1a"
    without = graph_with("dev", {"ui": {**UI, "storage-gib": 0}})
    assert len(plain(without.named("tandem-system").inputs)["subnetIds"]) == 2


def test_the_pages_volume_is_in_the_first_zone_of_two_system_nodes() -> None:
    graph = graph_with("dev", {"ui": UI, "cluster": {"nat": "none", "system-nodes": {"count": 2}}})
    assert len(plain(graph.named("tandem-system").inputs)["subnetIds"]) == 2
    assert page_zone(graph) == "us-east-1a"


def test_a_page_whose_volume_is_where_no_system_node_runs_any_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volume_zones, "_keep", lambda name, zones: pulumi.Output.from_input("us-east-1f"))
    with pytest.raises(pulumi.RunError, match=r"^ui.storage-gib: the page's volume is in us-east-1f"):
        graph_with("dev", {"ui": UI})
