"""The commands and output of each verb, word for word, for every kind of finding. A stand-in for `pulumi` keeps
what it was asked to run, and ends as it is made to. The engine tier shows that the real one does what is expected.
"""

import json
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sandbox.graph import Graph, Resource
from sandbox.world import Entity, World
from sharing.sections.existing import ExistingVpc
from tandem.sandbox import verbs
from tandem.sandbox.pulumi import Pulumi
from tandem.sandbox.state import Findings, Managed, Orphan, Unfinished, lack_dependencies
from tandem.sandbox.verbs import Place, Sandbox
from tests.command import ROOT, Printed

VPC = "aws:ec2/vpc:Vpc"
URN = f"urn:pulumi:dev::tandem::{VPC}::tandem-vpc"
STACK = "urn:pulumi:dev::tandem::pulumi:pulumi:Stack::tandem-dev"
PROVIDER = "urn:pulumi:dev::tandem::pulumi:providers:aws::tandem"
REFRESH = ("refresh", "--stack", "dev", "--yes", "--skip-preview")
RECOVER = (*REFRESH, "--clear-pending-creates", "--non-interactive")
PLACES = ("--parent", f"parent={STACK}", "--provider", f"provider={PROVIDER}")
OPTIONS = ("--protect=false", "--generate-code=false", "--yes")
IMPORT = ("import", "--stack", "dev", VPC, "tandem-vpc", "vpc-1", *PLACES, *OPTIONS)
DESTROY = ("destroy", "--stack", "dev", "--yes", "--skip-preview")
UP = ("up", "--stack", "dev", "--yes", "--skip-preview")
CREATING = Unfinished(URN, VPC, "creating", STACK, PROVIDER)
MANAGED = Managed(URN, VPC, "vpc-1")
ENTITY = Entity(type=VPC, id="vpc-1", name="tandem-vpc", inputs={}, outputs={}, made_by="pulumi")
DELETE = f"tandem sandbox delete dev {VPC} vpc-1"
ORPHAN = Orphan(ENTITY, DELETE)
CREATED = Orphan(ENTITY, "tandem sandbox refresh dev", CREATING)
NOTHING = Findings((), 0, 0, (), (), ())
WHOLE = replace(NOTHING, resources=90, entities=80)


class Scripted(Pulumi):
    """Keeps what it runs; its exit codes are those of `codes`, then 0."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.ran: list[tuple[str, ...]] = []
        self.deployment: dict[str, Any] = {}
        self.stdout = None
        self.known, self.locked = True, False
        self.prepared: list[tuple[Path, Path | None]] = []

    @property
    def has_stack_file(self) -> bool:
        return self.known

    def prepare(self, project: Path, stack_file: Path | None) -> None:
        self.prepared.append((project, stack_file))

    def release(self) -> bool:
        return self.locked

    def run(self, *arguments: str) -> int:
        self.ran.append(arguments)
        return self.codes.pop(0) if self.codes else 0

    def state(self) -> dict[str, Any]:
        return self.deployment

    def edit_state(self, change: Any) -> None:
        change(self.deployment)


class Staged(Sandbox):
    """Returns the test's findings in order, and repeats the last one."""

    pulumi: Scripted
    finds: Findings | None = None
    printed: Printed

    def said(self) -> list[str]:
        return [line.removeprefix("sandbox: ") for line in self.printed.readouterr().out.splitlines()]

    def findings(self, graph: Graph | None = None) -> Findings:
        return self.finds or super().findings(graph)


@pytest.fixture
def sandbox(tmp_path: Path, capfd: Printed) -> Iterator[Staged]:
    """Its stack file is missing, so no program runs."""
    place = Place("dev", tmp_path / "Pulumi.dev.yaml", tmp_path)
    place.folder.mkdir(parents=True)
    world = World(patience=0.0)
    staged = Staged(place, world, Scripted())
    staged.printed = capfd
    yield staged
    world.close()


def create(sandbox: Staged, name: str = "tandem-vpc") -> Entity:
    identity, _ = sandbox.world.create(VPC, name, {"cidrBlock": "10.0.0.0/16"}, {})
    return replace(ENTITY, id=identity)


@pytest.mark.parametrize(
    ("found", "code", "lines"),
    [
        (WHOLE, 0, ["dev: 90 resources in Pulumi's state, 80 in the emulated cloud", "state and cloud agree"]),
        (
            replace(WHOLE, left_off="refresh", orphans=(ORPHAN,), missing=(replace(MANAGED, id="vpc-2"),)),
            1,
            [
                "dev: 90 resources in Pulumi's state, 80 in the emulated cloud",
                f"orphan: {VPC} tandem-vpc (vpc-1), created by pulumi",
                f"in the state, but not in the cloud: {VPC} tandem-vpc (vpc-2)",
                "the stack is incomplete: `refresh` removed resources",
                "hint: to continue, run in this order:",
                f"  {DELETE}",
                "  tandem sandbox refresh dev",
                "  tandem sandbox up dev",
            ],
        ),
        (
            replace(
                WHOLE, left_off="destroy", missing=(MANAGED,), unfinished=(replace(CREATING, operation="deleting"),)
            ),
            1,
            [
                "dev: 90 resources in Pulumi's state, 80 in the emulated cloud",
                f"unfinished: deleting {VPC} tandem-vpc",
                "the stack is incomplete: the last `destroy` did not finish",
                "hint: to continue, run in this order:",
                "  tandem sandbox refresh dev",
                "  tandem sandbox destroy dev",
            ],
        ),
        (
            replace(WHOLE, made=12, alone=22),
            0,
            [
                "dev: 90 resources in Pulumi's state (22 of them only there, such as components and providers), "
                "80 in the emulated cloud (12 of them created by AWS, Kubernetes "
                "or Helm)",
                "state and cloud agree",
            ],
        ),
    ],
    ids=["whole", "orphans and missing resources", "a deletion that did not end", "made by controllers"],
)
def test_status(sandbox: Staged, found: Findings, code: int, lines: list[str]) -> None:
    sandbox.finds = found
    assert verbs._status(sandbox, ()) == code
    assert sandbox.said() == lines


@pytest.mark.parametrize(("verb", "code"), [("up", 255), ("destroy", -signal.SIGKILL)])
def test_status_names_the_command_that_did_not_finish_until_it_succeeds(sandbox: Staged, verb: str, code: int) -> None:
    sandbox.pulumi.codes = [code]
    assert sandbox.run(verb) == 1
    killed = ["", "error: pulumi was killed by SIGKILL"]  # on a line of its own: Pulumi's line of dots has no end
    assert sandbox.said() == killed * (code < 0)
    sandbox.run("refresh")
    assert verbs._status(sandbox, ()) == 1
    assert sandbox.said()[2:] == [
        f"the stack is incomplete: the last `{verb}` did not finish",
        "hint: to continue, run:",
        f"  tandem sandbox {verb} dev",
    ]
    assert sandbox.run(verb) == 0
    assert verbs._status(sandbox, ()) == 0


UNKNOWN = [
    "error: the emulated cloud contains resources missing from Pulumi's state. Repair them first.",
    f"orphan: {VPC} tandem-vpc (vpc-1), created by pulumi",
    f"  hint: run `{DELETE}`",
]
EMPTY = [
    "nothing is left: 0 resources in the state, 0 in the cloud",
    "hint: to remove the stack, too, delete .tandem/sandbox/dev",
    "hint: do not run `pulumi stack rm`: outside the sandbox, it removes your real stack of that name",
]
AGAIN = "error: 90 resources are still in the state. Run `tandem sandbox destroy dev` to continue."
REFRESHED = "error: 90 resources are still in the state. Run `tandem sandbox destroy dev -- --refresh` to continue."


@pytest.mark.parametrize(
    ("extra", "codes", "found", "code", "left_off", "lines"),
    [
        ((), [0], NOTHING, 0, "", EMPTY),
        ((), [1], WHOLE, 1, "destroy", [AGAIN]),
        ((), [0], WHOLE, 1, "destroy", [AGAIN]),
        ((), [0], replace(WHOLE, missing=(MANAGED,)), 1, "destroy", [REFRESHED]),
        (("--target", URN), [0], WHOLE, 1, "", [AGAIN]),
        (
            (),
            [0],
            replace(NOTHING, orphans=(ORPHAN,)),
            1,
            "",
            ["error: 1 resources in the emulated cloud are in no state", *UNKNOWN[1:]],
        ),
    ],
    ids=["whole", "failed", "interrupted", "missing resources", "a target", "an orphan"],
)
def test_destroy(
    sandbox: Staged,
    extra: tuple[str, ...],
    codes: list[int],
    found: Findings,
    code: int,
    left_off: str,
    lines: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(sandbox.place.project)
    sandbox.finds = found
    sandbox.pulumi.codes = [*codes]
    assert verbs._destroy(sandbox, extra) == code
    assert sandbox.pulumi.ran == [(*DESTROY, *extra)]
    assert sandbox.left_off == left_off
    assert sandbox.said() == lines


@pytest.mark.parametrize(
    ("verb", "fresh"), [("up", True), ("preview", True), *((verb, False) for verb in ("refresh", "destroy", "pulumi"))]
)
def test_up_and_preview_take_over_the_stack_file_and_others_only_a_first_one(
    sandbox: Staged, verb: str, fresh: bool
) -> None:
    sandbox.finds = NOTHING
    sandbox.pulumi.locked = True
    for sandbox.pulumi.known in (True, False):
        verbs._VERBS[verb](sandbox, ("stack",))
        assert sandbox.said()[0] == "warning: the last command was killed; removed its lock"
    files = [file for _, file in sandbox.pulumi.prepared]
    assert files == [sandbox.place.stack_file if fresh else None, sandbox.place.stack_file]


FORGOTTEN = "Removing tandem-vpc from the state: creation did not complete"
TAKEN = "Importing tandem-vpc into the state: a killed command created it"
BESIDE = "Deleting tandem-vpc, an unfinished replacement"


@pytest.mark.parametrize(
    ("orphan", "codes", "ran", "code", "lines"),
    [
        (None, [0], [RECOVER], 0, [FORGOTTEN]),
        (None, [1], [RECOVER], 1, [FORGOTTEN]),
        (CREATED, [0, 0], [RECOVER, IMPORT], 0, [TAKEN]),
        (CREATED, [0, 1], [RECOVER, IMPORT], 1, [TAKEN]),
        (CREATED, [1], [RECOVER], 1, []),
        (replace(CREATED, replaces=True), [0], [RECOVER], 0, [BESIDE]),
        (replace(CREATED, replaces=True), [1], [RECOVER], 1, [BESIDE]),
    ],
    ids=["not created", "refresh fails", "created", "import fails", "neither", "beside", "beside, fails"],
)
def test_what_a_killed_up_was_creating_is_taken_over_or_forgotten(
    sandbox: Staged, orphan: Orphan | None, codes: list[int], ran: list[tuple[str, ...]], code: int, lines: list[str]
) -> None:
    entity = create(sandbox)
    orphans = (replace(orphan, entity=entity),) if orphan else ()
    ran = [tuple(entity.id if part == "vpc-1" else part for part in one) for one in ran]
    sandbox.finds = replace(WHOLE, unfinished=(CREATING,), orphans=orphans)
    sandbox.pulumi.codes = [*codes]
    assert sandbox.recover() == code
    assert (sandbox.pulumi.ran, sandbox.said()) == (ran, lines)
    assert (sandbox.world.read(VPC, entity.id) is None) == bool(orphan and orphan.replaces)


STATUS = "hint: run `tandem sandbox status dev` to inspect the stack, or repeat the command to continue"


@pytest.mark.parametrize(
    ("found", "codes", "ran", "code", "lines"),
    [
        (WHOLE, [0], [(*UP, "--refresh")], 0, ["Next: `tandem sandbox status dev`"]),
        (WHOLE, [255], [(*UP, "--refresh")], 1, [STATUS]),
        (replace(WHOLE, orphans=(ORPHAN,)), [], [], 1, UNKNOWN),
        (replace(WHOLE, unfinished=(CREATING,)), [1], [RECOVER], 1, [FORGOTTEN]),
    ],
    ids=["whole", "fails", "an orphan", "recovery fails"],
)
def test_up(
    sandbox: Staged, found: Findings, codes: list[int], ran: list[tuple[str, ...]], code: int, lines: list[str]
) -> None:
    sandbox.finds = found
    sandbox.pulumi.codes = [*codes]
    assert verbs._up(sandbox, ["--refresh"]) == code
    assert (sandbox.pulumi.ran, sandbox.said()) == (ran, lines)


@pytest.mark.parametrize(
    ("before", "missing", "after"),
    [("", (), ""), ("", (MANAGED,), "refresh"), ("destroy", (MANAGED,), "destroy"), ("up", (), "up")],
)
def test_a_refresh_that_removes_resources_leaves_the_stack_incomplete(
    sandbox: Staged, before: str, missing: tuple[Managed, ...], after: str
) -> None:
    sandbox.finds = replace(WHOLE, missing=missing)
    sandbox.left_off = before
    assert verbs._refresh(sandbox, ["--target", URN]) == 0
    assert (sandbox.left_off, sandbox.pulumi.ran) == (after, [(*REFRESH, "--target", URN)])


def test_nothing_to_recover(sandbox: Staged) -> None:
    sandbox.finds = replace(WHOLE, unfinished=(replace(CREATING, operation="updating"),))
    assert (sandbox.recover(), sandbox.pulumi.ran) == (0, [])


def test_a_recovery_that_fails_ends_refresh_and_destroy(sandbox: Staged) -> None:
    sandbox.finds = replace(WHOLE, unfinished=(CREATING,))
    for verb in (verbs._refresh, verbs._destroy):
        sandbox.pulumi.codes, sandbox.pulumi.ran = [1], []
        assert (verb(sandbox, ()), sandbox.pulumi.ran) == (1, [RECOVER])


def test_a_vpc_that_the_stack_file_names_is_in_the_cloud(sandbox: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SimpleNamespace(vpc=ExistingVpc(id="vpc-0a1b2c3d", subnets=["subnet-0000000a", "subnet-0000000b"]))
    config = SimpleNamespace(region="us-east-1", cluster=cluster)
    monkeypatch.setattr(verbs, "_plan", lambda place: SimpleNamespace(config=config))
    sandbox.prepare(fresh=True)
    assert sandbox.world.read(VPC, "vpc-0a1b2c3d") is not None
    assert sandbox.world.read("aws:ec2/subnet:Subnet", "subnet-0000000b") is not None


def test_the_cloud_deletes_only_what_is_not_in_use(sandbox: Staged) -> None:
    vpc = create(sandbox)
    sandbox.world.create("aws:ec2/subnet:Subnet", "in-it", {"vpcId": vpc.id, "cidrBlock": "10.0.0.0/24"}, {})
    with pytest.raises(verbs.RefusedError, match=r"^the emulated cloud refuses: .*DependencyViolation"):
        verbs._delete(sandbox, (VPC, vpc.id))
    assert sandbox.world.read(VPC, vpc.id) is not None
    other = create(sandbox)
    assert verbs._delete(sandbox, (VPC, other.id)) == 0
    assert sandbox.world.read(VPC, other.id) is None


def test_other_commands_of_pulumi_run_on_the_stack(sandbox: Staged) -> None:
    sandbox.pulumi.codes = [0, 3]
    assert verbs._preview(sandbox, ["--diff"]) == 0
    assert verbs._VERBS["pulumi"](sandbox, ["stack", "--show-ids"]) == 1
    assert sandbox.pulumi.ran == [("preview", "--stack", "dev", "--diff"), ("stack", "--stack", "dev", "--show-ids")]
    assert sandbox.left_off == ""


@pytest.mark.parametrize(
    ("verb", "codes", "found", "code"),
    [
        ("status", [], replace(WHOLE, missing=(MANAGED,)), 1),
        ("up", [255], WHOLE, 1),
        ("refresh", [0], replace(WHOLE, orphans=(ORPHAN,)), 1),
    ],
)
def test_for_programs_one_object_is_on_stdout_and_the_rest_on_stderr(
    sandbox: Staged, verb: str, codes: list[int], found: Findings, code: int
) -> None:
    sandbox.finds = found
    sandbox.pulumi.codes = [*codes]
    assert verbs._for_programs(verb, sandbox, ()) == code
    captured = sandbox.printed.readouterr()
    report = json.loads(captured.out)
    assert (report["stack"], report["resources"], report["agree"]) == ("dev", 90, found.agree)
    assert captured.err == (f"sandbox: {STATUS}\n" if codes == [255] else "")
    assert sandbox.pulumi.stdout == (None if verb == "status" else sys.stderr.fileno())


def test_an_import_gets_the_dependencies_that_the_program_says(
    sandbox: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry that was imported has no `propertyDependencies`, and `destroy` would delete it too early."""
    subnet = "urn:pulumi:dev::tandem::aws:ec2/subnet:Subnet::tandem-subnet"
    later = f"{subnet}-2"
    sandbox.pulumi.deployment = {
        "resources": [
            {"urn": PROVIDER, "type": "pulumi:providers:aws", "id": "p"},
            {"urn": URN, "type": VPC, "id": "vpc-1", "propertyDependencies": {}},
            {"urn": subnet, "type": "aws:ec2/subnet:Subnet", "id": "subnet-1"},
            {"urn": later, "type": "aws:ec2/subnet:Subnet", "id": "subnet-2", "propertyDependencies": {}},
        ]
    }
    assert [one["urn"] for one in lack_dependencies(sandbox.pulumi.deployment)] == [subnet]
    sandbox.order()
    assert "dependencies" not in sandbox.pulumi.deployment["resources"][2], "the program's dependencies are unknown"
    named: dict[str, Any] = {"urn": subnet, "type": "aws:ec2/subnet:Subnet", "name": "tandem-subnet", "parent": STACK}
    needs = Resource(**named, inputs={}, outputs={}, dependencies=(URN, later))
    monkeypatch.setattr(verbs, "_graph", lambda place: Graph(resources={subnet: needs}))
    sandbox.finds = NOTHING
    assert verbs._destroy(sandbox, ()) == 0
    assert sandbox.pulumi.deployment["resources"][2]["dependencies"] == [URN]
    assert "dependencies" not in sandbox.pulumi.deployment["resources"][1]


@pytest.mark.parametrize("changed", [("replicas: 2", "replicas: 1"), ("config:", "config: [")])
def test_the_program_of_a_stack_file_that_is_refused_says_nothing(sandbox: Staged, changed: tuple[str, str]) -> None:
    text = (ROOT / "Pulumi.timeslice.yaml").read_text(encoding="utf-8")
    sandbox.place.stack_file.write_text(text.replace(*changed), encoding="utf-8")
    assert verbs._graph(sandbox.place) is None


@pytest.mark.slow
def test_the_program_of_a_stack_file_says_what_it_creates(sandbox: Staged) -> None:
    shutil.copy(ROOT / "Pulumi.timeslice.yaml", sandbox.place.stack_file)
    graph = verbs._graph(sandbox.place)
    assert graph
    assert [one.name for one in graph.of_type(VPC)] == ["tandem-vpc"]
