"""The comparison of state and cloud in `tandem sandbox status`, and the command that repairs them."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from sandbox.world import CloudError, tokens
from sandbox.world.entities import Entity
from sandbox.world.foreign import ELSEWHERE
from tandem.sandbox.state import compare

QUEUE = "aws:sqs/queue:Queue"
STACK = "urn:pulumi:timeslice::tandem::pulumi:pulumi:Stack::tandem-timeslice"
PARENT = "urn:pulumi:timeslice::tandem::tandem:index:KarpenterGpuPool::tandem-karpenter"
PROVIDER = "urn:pulumi:timeslice::tandem::pulumi:providers:aws::tandem"


def queue(**more: Any) -> Entity:
    return Entity(type=QUEUE, id="https://sqs/1 2", name="interruptions", inputs={}, outputs={}, **more)


def urn(name: str) -> str:
    return f"urn:pulumi:timeslice::tandem::{QUEUE}::{name}"


def entry(name: str, **more: Any) -> dict[str, Any]:
    return {"urn": urn(name), "type": QUEUE, "custom": True, "id": f"https://sqs/{name}", **more}


AWS = {"urn": PROVIDER, "type": "pulumi:providers:aws", "custom": True, "id": "7e1f"}
GRAPH = SimpleNamespace(
    of_type=lambda type: [
        SimpleNamespace(name="interruptions", urn=urn("interruptions"), parent=PARENT, provider=PROVIDER)
    ]
)


def found(*left: Entity, resources: Any = (AWS,), pending: Any = (), graph: Any = GRAPH, gone: Any = ()) -> Any:
    """A comparison of a state with a cloud in which `left` is unknown to it, and the ids `gone` are not there. What lay
    in a cluster that no longer exists cannot be asked for."""

    def read(type: str, id: str) -> dict[str, Any] | None:
        if type.startswith(tokens.KUBERNETES):
            raise CloudError("unreachable", "the cluster is deleted")
        return None if id in gone else {}

    cloud: Any = SimpleNamespace(
        letters=lambda queue: [],
        leftovers=lambda keys: [one for one in left if one.key not in keys],
        entities=lambda: left,
        read=read,
    )
    return compare("timeslice", {"resources": [*resources], "pending_operations": [*pending]}, cloud, graph)


def repair(*left: Entity, **more: Any) -> str:
    (orphan,) = found(*left, **more).orphans
    return str(orphan.repair)


def test_what_the_program_creates_is_imported_with_its_parent_and_provider() -> None:
    assert repair(queue()) == (
        f"tandem sandbox pulumi timeslice -- import {QUEUE} interruptions 'https://sqs/1 2' --parent parent={PARENT} "
        f"--provider provider={PROVIDER} --protect=false --generate-code=false --yes"
    )


def test_what_the_program_does_not_create_is_deleted() -> None:
    delete = f"tandem sandbox delete timeslice {QUEUE} 'https://sqs/1 2'"
    nothing = SimpleNamespace(of_type=lambda type: [])
    assert repair(queue(made_by="karpenter")) == delete
    assert repair(queue(), graph=nothing) == delete
    assert repair(queue(), graph=None) == delete
    # Without its provider in the state an import has nothing to ask.
    assert repair(queue(), resources=()) == delete
    # Its name is the program's, but has an entry; or it has a name of its own.
    assert repair(queue(), resources=[AWS, entry("interruptions")]) == delete
    assert repair(replace(queue(), name="theirs")) == delete


def test_what_an_unfinished_creation_made_is_found_by_a_refresh() -> None:
    resource = {"urn": urn("interruptions"), "type": QUEUE, "provider": f"{PROVIDER}::7"}
    creating = {"type": "creating", "resource": resource}
    (orphan,) = found(queue(), pending=[creating]).orphans
    assert (orphan.repair, orphan.replaces) == ("tandem sandbox refresh timeslice", False)
    assert (orphan.pending.operation, orphan.pending.provider) == ("creating", PROVIDER)
    (orphan,) = found(queue(), pending=[creating], resources=[AWS, entry("interruptions")]).orphans
    assert orphan.replaces
    # Another operation, or another queue, made nothing.
    for other in ({**creating, "type": "updating"}, {**creating, "resource": {"urn": urn("b"), "type": QUEUE}}):
        assert repair(queue(), pending=[other]).startswith("tandem sandbox pulumi timeslice -- import")


def test_what_belongs_to_an_orphan_comes_and_goes_with_it() -> None:
    pod = Entity(type=tokens.POD, id="m/1", name="1", inputs={}, outputs={}, owner=queue().key, made_by="kubernetes")
    seen = found(queue(), pod, replace(pod, id="m/2"))
    assert ([one.entity.id for one in seen.orphans], seen.entities, seen.made) == ([queue().id], 3, 2)
    assert found(queue(), resources=[AWS, entry("theirs", id=queue().id)]).orphans == ()


def test_what_the_cloud_had_before_is_not_counted() -> None:
    seen = found(queue(made_by=ELSEWHERE), resources=[AWS, entry("theirs", id=queue().id)])
    assert (seen.entities, seen.made) == (0, 0)


def test_what_a_release_leaves_in_the_cluster_is_no_orphan_but_what_it_should_have_deleted_is() -> None:
    crd = queue(made_by="helm")
    assert found(crd).orphans == ()
    [orphan] = found(replace(crd, owner=("kubernetes:helm.sh/v3:Release", "default/gone"))).orphans
    assert orphan.repair.startswith("tandem sandbox delete ")


def test_what_is_deleted_and_waits_for_its_successor_is_unfinished_and_not_missing() -> None:
    """pulumi 3.260 pkg/resource/deploy/step.go, DeleteStep.Apply: `pendingReplacement` stays in the state."""
    seen = found(resources=[AWS, entry("a", pendingReplacement=True)], gone=["https://sqs/a"])
    assert [(one.operation, one.urn) for one in seen.unfinished] == [("replacing", urn("a"))]
    assert (seen.managed, seen.missing, seen.agree, seen.completes) == ((), (), False, "up")


def test_what_is_in_the_state_alone_is_missing() -> None:
    of_pulumi = [
        {"urn": STACK, "type": "pulumi:pulumi:Stack"},
        {"urn": f"{PROVIDER[:-6]}default_7", "type": "pulumi:providers:aws", "custom": True, "id": "1"},
        {"urn": PARENT, "type": "tandem:index:KarpenterGpuPool"},
        {"urn": urn("theirs"), "type": QUEUE, "custom": True, "id": "theirs", "external": True},
    ]
    resources = [*of_pulumi, AWS, entry("a"), entry("b")]
    seen = found(resources=resources, gone=["https://sqs/b", "theirs"])
    assert [one.name for one in seen.managed] == ["a", "b"]
    assert [one.id for one in seen.missing] == ["https://sqs/b"]
    # The stack, a component, a provider, and a resource of somebody else; not a default provider.
    assert (seen.resources, seen.alone) == (6, 4)
    pod = entry("c", type=tokens.POD)
    assert [one.id for one in found(resources=[*resources, pod]).missing] == [pod["id"]]
    # A default provider is not one of the stack's resources; `pulumi` counts the stack itself.
    assert (seen.resources, seen.agree) == (6, False)
    assert found(resources=resources).agree
