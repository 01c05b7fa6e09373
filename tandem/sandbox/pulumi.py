"""The real `pulumi` on the PATH, with a private backend and the emulated cloud's providers."""

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
from stacks.model_files.find import STACK_FOLDER
from tandem.sandbox.processes import HOME, end_running
from tandem.terminal import CallError

OLDEST = (3, 250)
"""Engines of this minor version and later work with the providers (run with 3.260)."""
LANGUAGE_HOSTS = ("pulumi-language-python", "pulumi-language-python-exec")
PASSPHRASE = "sandbox"
"""Protects the secrets of an emulated cloud. The backend is private and this is not a secret."""
HIDDEN = ("AWS_", "KUBE", "PULUMI_")
"""Prefixes of variables that would change the engine's or the program's behaviour."""
SALT = "encryptionsalt"
QUIET = "import signal\n\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\n"
"""Python runs this first. Pulumi sends SIGINT to the program when an update is canceled (see `__main__.py`). Most of
the program's time is imports of the SDK, which precede its own first line."""


class NoPulumiError(CallError):
    """There is no usable `pulumi`; the text says how to install it."""


class FailedError(CallError):
    """A preparing or reading command of `pulumi` failed; the text has its message."""


class Pulumi:
    """Runs `pulumi` for one stack, in its own folder: private project file, stack file, backend and home."""

    def __init__(self, folder: Path, stack: str) -> None:
        self.folder = folder
        self.stack = stack
        self._executable = executable()
        self._backend = folder / "state"
        self._home = folder / "home"
        self._stack_file = folder / f"Pulumi.{stack}.yaml"
        self._python = folder / "python"
        self.providers = ""
        """The value of PULUMI_DEBUG_PROVIDERS."""
        self.stack_folder = Path()
        """The folder of the user's stack file, for relative paths in it."""
        self.stdout: int | None = None
        """The file for a command's progress, instead of this process's standard output."""

    @property
    def has_stack(self) -> bool:
        """Whether the backend knows the stack."""
        return any(self._backend.glob(f".pulumi/stacks/*/{self.stack}.json"))

    def prepare(self, project: Path, stack_file: Path | None) -> None:
        """Writes the private copies of `Pulumi.yaml` in `project` and of the stack file, and creates the stack.

        The user's files are never changed: pulumi would write its salt into them.
        """
        self._backend.mkdir(exist_ok=True)
        settings = yaml.safe_load((project / "Pulumi.yaml").read_text(encoding="utf-8"))
        main = (project / settings.get("main", ".")).resolve()
        # The program runs in the Python environment of this command.
        runtime = {"name": "python", "options": {"toolchain": "pip", "virtualenv": sys.prefix}}
        private = {"name": settings["name"], "runtime": runtime, "main": str(main)}
        write_whole(self.folder / "Pulumi.yaml", yaml.safe_dump(private))
        self._python.mkdir(exist_ok=True)
        (self._python / "sitecustomize.py").write_text(QUIET, encoding="utf-8")
        if stack_file is not None:
            # `refresh` and `destroy` do not need it, so they continue if the stack file is deleted or broken.
            settings = {"config": _read(stack_file).get("config") or {}, **self._salt()}
            write_whole(self._stack_file, yaml.safe_dump(settings))
        if not self.has_stack:
            self.ask("stack", "init", self.stack)

    def clear(self) -> None:
        """Ends processes that a killed command left running, and removes its half-written files.

        Only for the owner of the emulated cloud's lock: no other command is running then.
        """
        end_running(self._home)
        # They contain an unused checksum. A kill leaves one empty, and then pulumi reads no state at all:
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
        """Whether the private copy of the stack file is complete; earlier versions left half-written ones."""
        return isinstance(_read(self._stack_file).get("config"), dict)

    def state(self) -> dict[str, Any]:
        """The deployment: resources, pending operations. Empty before the first `up`."""
        if not self.has_stack:
            return {}
        exported = self.ask("stack", "export", "--stack", self.stack)
        deployment: dict[str, Any] = json.loads(exported)["deployment"] or {}
        return deployment

    def edit_state(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Changes the deployment; pulumi validates it before it accepts it."""
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
        if code < 0:  # a signal ended it, so it could not end its own children
            end_running(self._home)
        return code

    def ask(self, *arguments: str) -> str:
        """Runs a command and returns its output; raises `FailedError`."""
        done = subprocess.run(
            self._command(arguments), cwd=self.folder, env=self.environment(), capture_output=True, text=True
        )
        if done.returncode:
            said = (done.stderr or done.stdout).strip()
            raise FailedError(f"`pulumi {' '.join(arguments)}` failed in {self.folder}: {said}")
        return done.stdout

    def _salt(self) -> dict[str, Any]:
        """Without it pulumi creates another; secrets in the state have their own."""
        before = _read(self._stack_file)
        return {SALT: before[SALT]} if SALT in before else {}

    def _command(self, arguments: Sequence[str]) -> list[str]:
        return [self._executable, *arguments]

    def environment(self) -> dict[str, str]:
        """The environment of `pulumi`: without the caller's AWS, Kubernetes or Pulumi variables."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(HIDDEN)},
            "PULUMI_BACKEND_URL": f"{self._backend.as_uri()}?metadata=skip",
            "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
            "PULUMI_DEBUG_PROVIDERS": self.providers,
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            HOME: str(self._home),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            STACK_FOLDER: str(self.stack_folder.resolve()),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(self._python), os.environ.get("PYTHONPATH")))),
        }


def _read(path: Path) -> dict[str, Any]:
    """The content of a YAML file; nothing if it is missing or truncated."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    return values if isinstance(values, dict) else {}


@cache
def _version(found: str) -> str:
    return subprocess.run([found, "version"], capture_output=True, text=True).stdout.strip()


def executable() -> str:
    """The `pulumi` on the PATH; raises `NoPulumiError` if it is missing, too old or incomplete."""
    found = shutil.which("pulumi")
    if found is None:
        raise NoPulumiError(
            "`pulumi` is not on the PATH. Install it from https://www.pulumi.com/docs/install/ "
            "(`curl -fsSL https://get.pulumi.com | sh`), or use `tandem plan`, which does not need it."
        )
    said = _version(found)
    version = re.match(r"v?(\d+)\.(\d+)", said)
    # A `pulumi` built from source has no version.
    if version and tuple(map(int, version.groups())) < OLDEST:
        raise NoPulumiError(
            f"{found} is {said}, but the sandbox needs {OLDEST[0]}.{OLDEST[1]} or later. "
            "Update it from https://www.pulumi.com/docs/install/."
        )
    for host in LANGUAGE_HOSTS:
        if not (Path(found).resolve().parent / host).exists() and shutil.which(host) is None:
            raise NoPulumiError(f"{found} has no {host} beside it. Install the complete archive of Pulumi.")
    return found


@contextmanager
def _interrupts_left_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """While `pulumi` runs, it handles Ctrl-C: it finishes its operations while the providers still run.

    The terminal sends SIGINT to both processes. SIGTERM for this process is for the other, too.
    """

    def pass_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(signal.SIGINT)

    def leave(number: int, frame: FrameType | None) -> None:
        """Not SIG_IGN: a child would inherit that."""

    try:
        before = {
            number: signal.signal(number, do) for number, do in ((signal.SIGINT, leave), (signal.SIGTERM, pass_on))
        }
    except ValueError:  # not the main thread, which gets the signals
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
