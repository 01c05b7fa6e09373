"""Two stacks in one emulated cloud: the cluster of another team, and a stack of ours in it."""

import json
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Self

import yaml

from sandbox.world import Entity, World
from tandem.sandbox.pulumi import executable
from tandem.sandbox.verbs import AT_ONCE, CLOUD, opened
from tests.engine.emulated import Stack
from tests.sandbox.outside import Outside

PROGRAM = Path(__file__).with_name("platform_team")
NAME = "platform"
Snapshot = Mapping[tuple[str, str], str]
"""Every resource as text, by type and id."""


class Platform(Stack):
    """The other team's stack, in a folder of its own."""

    @classmethod
    def made(cls, folder: Path, extras: Sequence[str] = (), **config: str) -> Self:
        """Creates the cluster in a new emulated cloud."""
        project = {"name": NAME, "runtime": "python", "main": str(PROGRAM)}
        (folder / "Pulumi.yaml").write_text(yaml.safe_dump(project), encoding="utf-8")
        values = {"aws:region": "us-east-1", f"{NAME}:extras": list(extras)}
        values |= {f"{NAME}:{key}": value for key, value in config.items()}
        (folder / f"Pulumi.{NAME}.yaml").write_text(yaml.safe_dump({"config": values}), encoding="utf-8")
        stack = cls(folder, NAME)
        stack.comes_up()
        return stack

    def finds_nothing_to_do(self, cloud: Path) -> None:
        """Checks that this program finds the cloud as it left it."""
        shutil.copy(cloud, self.place.folder / CLOUD)
        assert self.comes_up("--refresh").changed == {}


class Guest(Stack):
    """A stack of ours in that cluster."""

    @classmethod
    def inside(cls, folder: Path, host: Stack, name: str, **sections: Any) -> Self:
        """A stack that was never deployed, in the host's cloud; given sections replace those of its file."""
        sections = {"cluster": {"existing": {"name": NAME}}, **sections}
        # Without those of the file, with which they would be merged.
        stack = cls.new(folder, name, dict.fromkeys(sections))
        stack.configure(sections)
        stack.place.folder.mkdir(parents=True)
        shutil.copy(host.place.folder / CLOUD, stack.cloud)
        return stack

    def everything(self) -> Snapshot:
        """Every resource of the cloud now."""
        return {entity.key: _text(entity) for entity in self.behind(Outside.entities)}

    def adds_to(self, before: Snapshot) -> Snapshot:
        """The resources that were not there before. Everything that was there must be as it was, byte for byte."""
        now = self.everything()
        assert {key: now.get(key) for key in before} == before
        return {key: text for key, text in now.items() if key not in before}

    def is_killed_during_up(self, token: str) -> None:
        """Kills `pulumi up` with all its processes as soon as the cloud has one more resource of the type."""
        with opened(self.place, pace=0) as sandbox:
            count = len(_of(sandbox.world, token))
            sandbox.prepare(fresh=True)
            command = [executable(), "up", "--stack", self.name, *AT_ONCE]
            folder, environment = sandbox.pulumi.folder, sandbox.pulumi.environment()
            process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
            while len(_of(sandbox.world, token)) == count:
                assert process.poll() is None
                time.sleep(0.02)
            process.kill()
            process.wait()
            sandbox.pulumi.clear()

    @property
    def cloud(self) -> Path:
        """The file with the emulated cloud."""
        return self.place.folder / CLOUD

    def recovers(self) -> None:
        """Finishes what a killed command left, as `tandem sandbox destroy` does first."""
        with opened(self.place, pace=0) as sandbox:
            sandbox.prepare(fresh=False)
            assert sandbox.recover() == 0
            sandbox.order()


def _of(world: World, token: str) -> list[Entity]:
    return [entity for entity in world.entities() if entity.type == token]


def _text(entity: Entity) -> str:
    return json.dumps({field.name: getattr(entity, field.name) for field in fields(entity)}, sort_keys=True)
