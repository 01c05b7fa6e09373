"""The real `pulumi` of the PATH, on a private backend and with the emulated cloud's providers attached."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import yaml

from sharing.files import write_whole
from tandem.sandbox.processes import HOME, end_running
from tandem.terminal import CallError

OLDEST = (3, 250)
"""The engine of this minor version and later was run against the providers (3.260); what they rely on is older."""
LANGUAGE_HOSTS = ("pulumi-language-python", "pulumi-language-python-exec")
PASSPHRASE = "sandbox"
"""Guards the secrets of an emulated cloud. The backend is private and this is no secret, so nobody has to know it."""
HIDDEN = ("AWS_", "KUBE", "PULUMI_")
"""Beginnings of variables that would change what the engine or the program does."""
SALT = "encryptionsalt"
QUIET = "import signal\n\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\n"
"""What Python runs first. Pulumi sends SIGINT to the program when an update is canceled (see `__main__.py`). Most of
the program's time is imports of the SDK, which come before its own first line."""


class NoPulumiError(CallError):
    """There is no `pulumi` that could be run; says how to get one."""


class FailedError(CallError):
    """A command of `pulumi` that only prepares or looks failed; carries what it said."""


class Pulumi:
    """Runs `pulumi` for one stack, in a folder of its own: private project file, stack file, backend and home."""

    def __init__(self, folder: Path, stack: str) -> None:
        self.folder = folder
        self.stack = stack
        self._executable = executable()
        self._backend = folder / "state"
        self._home = folder / "home"
        self._stack_file = folder / f"Pulumi.{stack}.yaml"
        self._python = folder / "python"
        self.providers = ""
        """What PULUMI_DEBUG_PROVIDERS says."""
        self.stdout: int | None = None
        """Where the progress of a command goes, if not to the standard output of this process."""

    @property
    def has_stack(self) -> bool:
        """Whether the backend knows the stack."""
        return any(self._backend.glob(f".pulumi/stacks/*/{self.stack}.json"))

    def prepare(self, project: Path, stack_file: Path | None) -> None:
        """Writes the private copies of `Pulumi.yaml` in `project` and of the stack file, and makes the stack.

        The user's files are never changed: pulumi would write its salt into them.
        """
        self._backend.mkdir(exist_ok=True)
        settings = yaml.safe_load((project / "Pulumi.yaml").read_text(encoding="utf-8"))
        main = (project / settings.get("main", ".")).resolve()
        # The program runs in the environment of this command, wherever that is installed.
        runtime = {"name": "python", "options": {"toolchain": "pip", "virtualenv": sys.prefix}}
        private = {"name": settings["name"], "runtime": runtime, "main": str(main)}
        write_whole(self.folder / "Pulumi.yaml", yaml.safe_dump(private))
        self._python.mkdir(exist_ok=True)
        (self._python / "sitecustomize.py").write_text(QUIET, encoding="utf-8")
        if stack_file is not None:
            # `refresh` and `destroy` need none of it, so they go on where the stack file has gone or is broken.
            settings = {"config": _read(stack_file).get("config") or {}, **self._salt()}
            write_whole(self._stack_file, yaml.safe_dump(settings))
        if not self.has_stack:
            self.ask("stack", "init", self.stack)

    def clear(self) -> None:
        """Ends what a killed command left running, and removes what it left half-written.

        Only for the owner of the emulated cloud's own lock: nobody else is at work then.
        """
        end_running(self._home)
        # They hold a checksum that nobody reads. A kill leaves one empty, and then pulumi reads no state at all:
        # gocloud.dev v0.46 blob/fileblob/attrs.go writes them in place, and reads them even under `metadata=skip`.
        for attributes in self._backend.rglob("*.attrs"):
            attributes.unlink()

    def release(self) -> bool:
        """Drops the lock that a killed command left; returns whether there was one. Call `clear` before."""
        if not any(self._backend.glob(".pulumi/locks/**/*.json")):
            return False
        self.ask("cancel", "--yes", "--stack", self.stack)
        return True

    @property
    def has_stack_file(self) -> bool:
        """Whether the private copy of the stack file is there and whole; a version that wrote in place left halves."""
        return isinstance(_read(self._stack_file).get("config"), dict)

    def state(self) -> dict[str, Any]:
        """The deployment: resources, pending operations. Empty before the first `up`."""
        if not self.has_stack:
            return {}
        exported = self.ask("stack", "export", "--stack", self.stack)
        deployment: dict[str, Any] = json.loads(exported)["deployment"] or {}
        return deployment

    def edit_state(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Changes the deployment; pulumi checks it before it takes it."""
        kept = json.loads(self.ask("stack", "export", "--stack", self.stack))
        change(kept["deployment"])
        edited = self.folder / "edited.json"
        edited.write_text(json.dumps(kept), encoding="utf-8")
        self.ask("stack", "import", "--stack", self.stack, "--file", str(edited))
        edited.unlink()

    def run(self, *arguments: str) -> int:
        """Runs a command that changes something, its progress going to the terminal; returns pulumi's exit code."""
        process = subprocess.Popen(
            self._command(arguments), cwd=self.folder, env=self.environment(), stdout=self.stdout
        )
        with _interrupts_left_to(process):
            code = process.wait()
        if code < 0:  # a signal has ended it, so it could not end its own children
            end_running(self._home)
        return code

    def ask(self, *arguments: str) -> str:
        """Runs a command and returns what it prints; raises `FailedError`."""
        done = subprocess.run(
            self._command(arguments), cwd=self.folder, env=self.environment(), capture_output=True, text=True
        )
        if done.returncode:
            said = (done.stderr or done.stdout).strip()
            raise FailedError(f"`pulumi {' '.join(arguments)}` failed in {self.folder}: {said}")
        return done.stdout

    def _salt(self) -> dict[str, Any]:
        """Without it pulumi makes another; secrets in the state have theirs beside them."""
        before = _read(self._stack_file)
        return {SALT: before[SALT]} if SALT in before else {}

    def _command(self, arguments: Sequence[str]) -> list[str]:
        return [self._executable, *arguments]

    def environment(self) -> dict[str, str]:
        """What `pulumi` sees: nothing of the caller's AWS, Kubernetes or Pulumi."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(HIDDEN)},
            "PULUMI_BACKEND_URL": f"{self._backend.as_uri()}?metadata=skip",
            "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
            "PULUMI_DEBUG_PROVIDERS": self.providers,
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            HOME: str(self._home),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PYTHONPATH": os.pathsep.join(filter(None, (str(self._python), os.environ.get("PYTHONPATH")))),
        }


def _read(path: Path) -> dict[str, Any]:
    """What a file of YAML holds; nothing where it is not there, or cut off."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    return values if isinstance(values, dict) else {}


@cache
def _version(found: str) -> str:
    return subprocess.run([found, "version"], capture_output=True, text=True).stdout.strip()


def executable() -> str:
    """The `pulumi` of the PATH; raises `NoPulumiError` when there is none, or one that is too old or incomplete."""
    found = shutil.which("pulumi")
    if found is None:
        raise NoPulumiError(
            "there is no `pulumi` on the PATH. Get it from https://www.pulumi.com/docs/install/ "
            "(`curl -fsSL https://get.pulumi.com | sh`), or use `tandem plan`, which needs none."
        )
    said = _version(found)
    version = re.match(r"v?(\d+)\.(\d+)", said)
    # A `pulumi` that was built by hand says nothing.
    if version and tuple(map(int, version.groups())) < OLDEST:
        raise NoPulumiError(
            f"{found} is {said}: too old, the sandbox needs {OLDEST[0]}.{OLDEST[1]} or later. "
            "Get it from https://www.pulumi.com/docs/install/."
        )
    for host in LANGUAGE_HOSTS:
        if not (Path(found).resolve().parent / host).exists() and shutil.which(host) is None:
            raise NoPulumiError(f"{found} has no {host} beside it: install Pulumi whole, its archive has all of them.")
    return found


@contextmanager
def _interrupts_left_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """While `pulumi` runs, Ctrl-C is its business: it ends what it has begun, with the providers still there.

    The terminal sends SIGINT to both processes. Whoever ends this one alone (SIGTERM) means the other one, too.
    """

    def pass_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(signal.SIGINT)

    def leave(number: int, frame: FrameType | None) -> None:
        """Not SIG_IGN: a child would inherit that."""

    try:
        before = signal.signal(signal.SIGINT, leave), signal.signal(signal.SIGTERM, pass_on)
    except ValueError:  # not the main thread: signals go elsewhere
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])
