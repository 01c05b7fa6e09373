"""Where a session runs: an AWS account, or the emulated cloud. Both use the real `pulumi`."""

import json
import os
import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
TANDEM = (sys.executable, "-m", "tandem")
ENDING_SECONDS = 300
"""How long an interrupted `pulumi` may take to finish its current operations."""
DESTROYS = 3
SALT = "encryptionsalt"


class StepError(Exception):
    """A step failed, or did not end in time."""


@dataclass
class Cloud:
    """One stack in a folder of its own."""

    folder: Path
    stack: str
    up: tuple[str, ...]
    destroy: tuple[str, ...]
    leftovers: tuple[str, ...]
    """Its exit code says whether anything is left; None if the destroy itself says so."""
    env: dict[str, str] = field(default_factory=dict)

    @property
    def stack_file(self) -> Path:
        """The session's copy of the stack file."""
        return self.folder / f"Pulumi.{self.stack}.yaml"

    def prepare(self, source: str) -> None:
        """Makes the project: its own `Pulumi.yaml`, and a copy of the stack file with the salt that Pulumi gave it."""
        salt = {}
        if self.stack_file.is_file():
            before = yaml.safe_load(self.stack_file.read_text(encoding="utf-8"))
            salt = {key: value for key, value in before.items() if key == SALT}
        self.folder.mkdir(parents=True, exist_ok=True)
        project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))
        runtime = {"name": "python", "options": {"toolchain": "pip", "virtualenv": sys.prefix}}
        settings = {**project, "main": str(ROOT), "runtime": runtime}
        (self.folder / "Pulumi.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        values = yaml.safe_load((ROOT / f"Pulumi.{source}.yaml").read_text(encoding="utf-8"))
        self.stack_file.write_text(yaml.safe_dump({**values, **salt}), encoding="utf-8")
        # Version 1 of the AWS CLI knows only the second name.
        self.env |= dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION"), self.region)

    @property
    def region(self) -> str:
        """The region of the stack file."""
        return str(self._stack_values()["aws:region"])

    @property
    def tags(self) -> set[str]:
        """Tags of the models in the stack file, as Ollama knows them."""
        return {one["name"] for one in self._stack_values()["tandem:models"]}

    def _stack_values(self) -> dict[str, Any]:
        values: dict[str, Any] = yaml.safe_load(self.stack_file.read_text(encoding="utf-8"))["config"]
        return values

    def configure(self, sections: Mapping[str, Any]) -> None:
        """Puts values into sections of the stack file."""
        values = yaml.safe_load(self.stack_file.read_text(encoding="utf-8"))
        for section, content in sections.items():
            key = f"tandem:{section}"
            values["config"][key] = {**values["config"].get(key, {}), **content}
        self.stack_file.write_text(yaml.safe_dump(values), encoding="utf-8")

    def highest_usd_per_hour(self) -> float:
        """The cost of the current stack file while its nodes are replaced. Raises StepError for a refused file."""
        return float(self.plan()["cost"]["replacing_usd_per_hour"])

    def plan(self) -> dict[str, Any]:
        """The JSON of `tandem plan` for the stack file. Raises StepError for a refused file."""
        done = subprocess.run(
            [*TANDEM, "plan", str(self.stack_file), "--json"],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise StepError(f"{self.stack_file.name} is refused: {done.stdout or done.stderr}")
        planned: dict[str, Any] = json.loads(done.stdout)
        return planned

    def run(self, command: Sequence[str], seconds: float) -> float:
        """Runs a command that changes the stack; returns how long it took. Raises StepError for a failure or a delay.

        It is not in the terminal's process group: this process gets Ctrl-C first, and passes it on once.
        """
        began = time.monotonic()
        process = subprocess.Popen(command, cwd=self.folder, env=self.environment, start_new_session=True)
        try:
            code = process.wait(timeout=max(seconds, 0))
        except subprocess.TimeoutExpired:
            end(process)
            raise StepError(f"`{shlex.join(command)}` took longer than the time limit allows") from None
        except BaseException:
            end(process)
            raise
        if code:
            raise StepError(f"`{shlex.join(command)}` failed with exit code {code}")
        return time.monotonic() - began

    def ask(self, command: str, seconds: float) -> str:
        """Runs a read-only shell command; returns its output. Raises StepError."""
        shell = ["bash", "-o", "pipefail", "-c", command]
        try:
            done = subprocess.run(
                shell, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=max(seconds, 0)
            )
        except subprocess.TimeoutExpired:
            raise StepError("the time limit was reached") from None
        if done.returncode:
            raise StepError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "the command failed")
        return done.stdout

    @property
    def environment(self) -> dict[str, str]:
        """The environment of commands."""
        return {**os.environ, "PYTHONPATH": str(ROOT), **self.env}


def end(process: subprocess.Popen[bytes]) -> None:
    """Interrupts a command, waits until it has finished its operations, and kills it if it does not end.

    A second Ctrl-C has no effect: a destroy that starts now would find the command's lock.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def emulated(folder: Path, name: str) -> Cloud:
    """The emulated cloud. Its destroy fails when something is left."""
    sandbox = (*TANDEM, "sandbox")
    return Cloud(folder, name, (*sandbox, "up", name), (*sandbox, "destroy", name), ())


def account(folder: Path, name: str) -> Cloud:
    """The AWS account of the ambient credentials, with a stack and a state of its own."""
    stack = f"live-{name}"
    options = ("--yes", "--skip-preview", "--stack", stack)
    cloud = Cloud(
        folder,
        stack,
        ("pulumi", "up", *options),
        ("pulumi", "destroy", *options),
        (*TANDEM, "leftovers", f"Pulumi.{stack}.yaml"),
    )
    folder.mkdir(parents=True, exist_ok=True)
    passphrase = folder / "passphrase"
    if not passphrase.is_file():
        passphrase.touch(mode=0o600)
        passphrase.write_text(secrets.token_hex(16), encoding="utf-8")
    state = folder / "state"
    state.mkdir(exist_ok=True)
    cloud.env = {
        "PULUMI_BACKEND_URL": state.as_uri(),
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(passphrase),
        "KUBECONFIG": str(folder / "kubeconfig.json"),
    }
    return cloud
