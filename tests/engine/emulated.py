"""A stack under the real engine, in a folder of its own, with its own emulated cloud."""

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

import yaml

from sandbox.cloud.answers import Cloud
from sandbox.graph import Graph
from sandbox.preview.program import run as run_in_process
from sandbox.world import Entity
from sandbox.world.providers.callers import Callers
from sharing.names import PROJECT, TOKEN
from stacks.deploy import deploy
from stacks.stack_file.judge import judge_file
from tandem.dry_run.program import answers_of_vpc
from tandem.sandbox.pulumi import executable
from tandem.sandbox.state import Findings
from tandem.sandbox.verbs import AT_ONCE, CLOUD, Place, Sandbox, opened
from tests.sandbox.faults import Fault, Faults
from tests.sandbox.outside import Outside

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
QUICK = ROOT / "tests" / "engine" / "quick"
"""Folder of a `pip` that answers Pulumi at once."""
EVERY_TYPE: Mapping[str, Any] = {
    "cluster": {"logs": True},
    "models": [{"name": "llama2:7b", "context": 2048, "cache": "volume"}, {"name": "mistral:7b", "context": 2048}],
}
"""Sections with which `timeslice` has a resource of every type except Karpenter's."""
CHANGING = frozenset({"create", "update", "delete", "replace"})
"""Operations on a resource in the engine's output; `replace` stands for its parts."""
Raise = Callable[..., "Stack"]
"""Returns a stack by name; given sections replace those of its file."""


@dataclass(frozen=True)
class Run:
    """The effect of one command of the engine."""

    code: int
    operations: dict[str, frozenset[str]] = field(default_factory=dict)
    """Logical names by operation: create, update, replace, delete. A created or deleted component stands for all
    its resources."""
    unchanged: int = 0
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def changed(self) -> dict[str, frozenset[str]]:
        """The operations that affected any resource."""
        return {operation: names for operation, names in self.operations.items() if names}


class Stack:
    """One stack in the emulated cloud. Every command opens the cloud again from its file."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.place = Place(name, folder / f"Pulumi.{name}.yaml", folder)
        self.fired = 0
        """Faults that have fired."""
        self.unfired: tuple[Fault, ...] = ()
        """Faults of the last command that have not fired."""
        self.callers = Callers()
        """The callers with credentials, and the one whose credentials are used."""

    @classmethod
    def new(cls, folder: Path, name: str, sections: Mapping[str, Any]) -> Self:
        """A project with a copy of the stack file; given sections replace those of the copy."""
        folder.mkdir(parents=True, exist_ok=True)
        project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))
        (folder / "Pulumi.yaml").write_text(yaml.safe_dump({**project, "main": str(ROOT)}), encoding="utf-8")
        shutil.copy(ROOT / f"Pulumi.{name}.yaml", folder)
        stack = cls(folder, name)
        stack.configure(sections)
        return stack

    def configure(self, sections: Mapping[str, Any]) -> None:
        """Puts values into sections of the stack file."""
        values = yaml.safe_load(self.place.stack_file.read_text(encoding="utf-8"))
        for section, content in sections.items():
            key = section if section.startswith("aws:") else f"tandem:{section}"
            before = values["config"].get(key)
            merged = isinstance(content, dict) and isinstance(before, dict)
            values["config"][key] = {**before, **content} if merged else content
        self.place.stack_file.write_text(yaml.safe_dump(values), encoding="utf-8")

    def up(self, *options: str, faults: tuple[Fault, ...] = ()) -> Run:
        return self._run("up", options, faults, fresh=True)

    def comes_up(self, *options: str) -> Run:
        """Runs `up`, which must succeed."""
        run = self.up(*options)
        assert run.code == 0, run.errors
        return run

    def stops(self, *options: str, faults: tuple[Fault, ...] = (), saying: str = "") -> str:
        """Runs `up`, which must fail with an error that contains `saying`; returns that error."""
        run = self.up(*options, faults=faults)
        assert run.code != 0
        said = [error for error in run.errors if saying in error]
        assert said, run.errors
        return said[0]

    def refuses(self) -> str:
        """Runs `up`, which must fail before it changes anything; returns its first error."""
        run = self.up()
        assert (run.code != 0, run.changed) == (True, {})
        return run.errors[0].strip()

    def refresh(self, *options: str) -> Run:
        return self._run("refresh", options)

    def destroy(self, *options: str, faults: tuple[Fault, ...] = ()) -> Run:
        return self._run("destroy", options, faults)

    def goes_down(self) -> None:
        """Runs `destroy`, which must succeed and leave nothing."""
        run = self.destroy()
        assert run.code == 0, run.errors
        findings = self.findings()
        assert (findings.resources, findings.entities, findings.orphans) == (0, 0, ())

    def preview(self, *options: str) -> Run:
        with opened(self.place, pace=0) as sandbox:
            sandbox.world.callers = self.callers
            sandbox.prepare(fresh=True)
            return shown(sandbox, "preview", "--json", *options, env_streams=True)

    def findings(self) -> Findings:
        with opened(self.place, pace=0) as sandbox:
            return sandbox.findings(self.graph)

    def edit_state(self, change: Callable[[dict[str, Any]], T]) -> T:
        """Edits the checkpoint on the disk: `pulumi stack import` would repair it."""
        [file] = (self.place.folder / "state").glob(f".pulumi/stacks/*/{self.name}.json")
        kept = json.loads(file.read_text(encoding="utf-8"))
        changed = change(kept["checkpoint"]["latest"])
        file.write_text(json.dumps(kept), encoding="utf-8")
        return changed

    def state(self) -> dict[str, Any]:
        with opened(self.place, pace=0) as sandbox:
            return sandbox.pulumi.state()

    @property
    def graph(self) -> Graph:
        """The same program, in this process, with the zones and offers of the emulated cloud."""
        plan = judge_file(self.place.stack_file).plan()
        cloud = Cloud(answers=answers_of_vpc(plan))
        return run_in_process(lambda: deploy(plan), project=PROJECT, stack=self.name, cloud=cloud)

    def behind(self, change: Callable[[Outside], T]) -> T:
        """Changes the cloud without Pulumi's knowledge."""
        world = Outside(self.place.folder / CLOUD)
        try:
            return change(world)
        finally:
            world.close()

    def entities(self, token: str, name: str = "") -> list[Entity]:
        """The cloud's resources of a type, or of a type and a logical name."""
        return self.behind(
            lambda world: [entity for entity in world.entities() if entity.type == token and name in ("", entity.name)]
        )

    def recycled(self) -> Counter[str]:
        """Nodes that updates have replaced so far, by logical name of their group."""
        names = {entity.outputs.get("nodeGroupName"): entity.name for entity in self.behind(Outside.entities)}
        recycled = self.behind(lambda world: world.recycled)
        return Counter({names.get(group, group): count for group, count in recycled.items()})

    def peaks(self) -> dict[str, int]:
        """Most vCPUs that ever ran at once, by the code of the quota."""
        return self.behind(lambda world: world.peaks)

    def copied_to(self, folder: Path) -> Self:
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return type(self)(folder, self.name)

    def _run(self, verb: str, options: tuple[str, ...], faults: tuple[Fault, ...] = (), *, fresh: bool = False) -> Run:
        going_wrong = Faults(faults)
        with opened(self.place, pace=0) as sandbox:
            sandbox.world.callers = self.callers
            going_wrong.strike(sandbox.world)
            sandbox.prepare(fresh=fresh)
            run = shown(sandbox, verb, *AT_ONCE, "--json", *options)
        self.unfired = going_wrong.waiting
        self.fired += len(faults) - len(self.unfired)
        return run


def shown(sandbox: Sandbox, verb: str, *options: str, env_streams: bool = False) -> Run:
    """Runs a command and reads the events that it prints."""
    pulumi = sandbox.pulumi
    env = pulumi.environment()
    if env_streams:
        env["PULUMI_ENABLE_STREAMING_JSON_PREVIEW"] = "true"
    command = [executable(), verb, "--stack", sandbox.place.stack, *options]
    done = subprocess.run(command, cwd=pulumi.folder, env=env, capture_output=True, text=True)
    operations: dict[str, set[str]] = {operation: set() for operation in CHANGING}
    components: set[str] = set()
    said: dict[str, list[str]] = {"error": [], "warning": []}
    unchanged = 0
    for line in done.stdout.splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        if "resourcePreEvent" in event:
            step = event["resourcePreEvent"]["metadata"]
            if step["op"] in CHANGING and step["type"] != "pulumi:pulumi:Stack":
                name = step["urn"].rsplit("::", 1)[1]
                operations[step["op"]].add(name)
                if step["type"].startswith(TOKEN.format("")):
                    components.add(name)
            unchanged += step["op"] == "same"
        elif event.get("diagnosticEvent", {}).get("severity") in said:
            said[event["diagnosticEvent"]["severity"]].append(event["diagnosticEvent"]["message"])
    if done.returncode and not said["error"]:
        said["error"].append(done.stderr)
    frozen = {operation: frozenset(_whole(names, components)) for operation, names in operations.items()}
    return Run(done.returncode, frozen, unchanged, tuple(said["error"]), tuple(said["warning"]))


def _whole(names: set[str], components: set[str]) -> set[str]:
    """The names without those of the components' own resources."""
    return {name for name in names if not any(name.startswith(f"{component}-") for component in components & names)}
