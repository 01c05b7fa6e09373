"""Programs of other people under the real engine: in any language, with a cluster that another team made."""

import hashlib
import json
import os
import shutil
import subprocess
import sysconfig
import venv
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from sandbox.world import World, tokens
from sharing.files import lock
from tandem.sandbox.verbs import AT_ONCE, CLOUD, Place, opened
from tests.engine.emulated import ROOT, Run, shown
from tests.sandbox.outside import Outside
from tests.sandbox.world_pieces import Account

OF_THE_PACKAGE = ("components", "plugin", "sharing", "pyproject.toml", "requirements.txt")
"""What Pulumi needs of the repository to run the package."""
PROVIDERS = ("aws", "eks", "kubernetes", "random")
THEIRS = "theirs"


def need_host(language: str) -> None:
    """Skips where Pulumi cannot run programs of a language."""
    host = f"pulumi-language-{language}"
    beside = Path(shutil.which("pulumi") or "").resolve().parent / host
    if shutil.which(host) is None and not beside.exists():
        pytest.skip(f"{host} is not on the PATH")


def copy_package(folder: Path) -> Path:
    """The part of a checkout that Pulumi fetches for the package, with an environment; returns the plugin's folder."""
    for name in OF_THE_PACKAGE:
        if (source := ROOT / name).is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".venv"))
        else:
            shutil.copy(source, folder / name)
    plugin = folder / "plugin"
    # `pulumi install` makes one with pip, which takes longer.
    venv.create(plugin / ".venv", symlinks=True)
    return plugin


class Program:
    """A program in its own folder, its stack `dev`, and its own emulated cloud."""

    def __init__(self, project: Path) -> None:
        self.place = Place("dev", project / "Pulumi.dev.yaml", project)
        self.folder = self.place.folder
        self.folder.mkdir(parents=True)
        # The package finds its libraries here; `pip` of the tests installs none.
        self._path = os.pathsep.join((os.environ.get("PYTHONPATH", ""), sysconfig.get_path("purelib")))

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(text, encoding="utf-8")

    def claim_cluster(self) -> Any:
        """Another team's cluster, with a node of its own and names in it; returns everything that it has."""
        account = Account(Outside(self.folder / CLOUD, seconds_per_minute=0))
        account.cluster(name=THEIRS)
        account.nodes("their-nodes", clusterName=THEIRS, count=2)
        account.make(tokens.ADDON, "dns", clusterName=THEIRS, addonName="coredns")
        account.world.close()
        return self.entities()

    def entities(self) -> dict[str, str]:
        """Every resource of the cloud as JSON, by type and id."""
        world = World(self.folder / CLOUD)
        try:
            return {f"{one.type} {one.id}": json.dumps(asdict(one), sort_keys=True) for one in world.entities()}
        finally:
            world.close()

    def configure(self, *arguments: str) -> None:
        self.ask("config", "set", *arguments)

    def ask(self, *arguments: str) -> str:
        """Runs a command of `pulumi`, which must succeed."""
        with opened(self.place, pace=0) as sandbox, pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", self._path)
            self._init(sandbox.pulumi)
            command, env = ["pulumi", *arguments], sandbox.pulumi.environment()
            done = subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}{done.stdout}{done.stderr}"
        return done.stdout

    def run(self, verb: str, *options: str) -> Run:
        """Runs `up`, `preview` or `destroy`."""
        at_once = () if verb == "preview" else AT_ONCE
        with opened(self.place, pace=0) as sandbox, pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", self._path)
            self._init(sandbox.pulumi)
            return shown(sandbox, verb, *at_once, "--json", *options, env_streams=True)

    def comes_up(self) -> Run:
        run = self.run("up")
        assert run.code == 0, run.errors
        return run

    def _init(self, pulumi: Any) -> None:
        (self.folder / "state").mkdir(exist_ok=True)
        if (self.folder / "Pulumi.yaml").exists() and not pulumi.has_stack:
            # `package add` looks for the providers of the package's SDKs. The sandbox serves them.
            for name in PROVIDERS:
                plugin = f"resource-{name}-v{version(f'pulumi-{name}')}"
                place = self.folder / "home" / "plugins" / plugin / f"pulumi-resource-{name}"
                place.parent.mkdir(parents=True)
                place.write_text("#!/bin/sh\n", encoding="utf-8")
                place.chmod(0o755)
            pulumi.ask("stack", "init", "dev")


def install_npm_packages(package: str) -> Path:
    """A folder with the packages of a `package.json`, installed once for all tests; skips without npm or a registry."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not on the PATH")
    folder = ROOT / "build" / f"npm-{hashlib.sha256(package.encode()).hexdigest()[:12]}"
    folder.parent.mkdir(exist_ok=True)
    with lock(folder.with_suffix(".lock"), wait=True):
        if not (folder / "node_modules").is_dir():
            making = folder.with_suffix(".new")
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir()
            (making / "package.json").write_text(package, encoding="utf-8")
            command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
            done = subprocess.run(command, cwd=making, capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"npm cannot install the packages: {done.stderr.splitlines()[0]}")
            making.rename(folder)
    return folder
