"""The files, arguments and variables of calls of `pulumi`, and the fate of its processes. A shell script replaces it;
the engine tier shows that the real one behaves as expected.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import pytest
import yaml

from tandem.sandbox import pulumi as module
from tandem.sandbox.pulumi import FailedError, Pulumi

SCRIPT = """#!/bin/sh
{{ echo "$PWD"; for word in "$@"; do echo "$word"; done; echo; }} >>{log}
env -0 >{log}.env
{body}
"""
SETTINGS = {"name": "tandem", "main": "program/", "description": "of the user"}


class Fake:
    """A `pulumi` on the PATH, and how it was called."""

    def __init__(self, folder: Path) -> None:
        self.log, self.script = folder / "log", folder / "bin" / "pulumi"
        self.script.parent.mkdir()
        for host in module.LANGUAGE_HOSTS:
            (self.script.parent / host).touch(mode=0o755)
        self.does("")

    def does(self, body: str) -> None:
        self.script.write_text(SCRIPT.format(log=self.log, body=body), encoding="utf-8")
        self.script.chmod(0o755)

    @property
    def calls(self) -> list[list[str]]:
        """Folder and arguments of each call."""
        return [call.splitlines() for call in self.log.read_text().split("\n\n")[:-1]] if self.log.exists() else []

    @property
    def variables(self) -> dict[str, str]:
        pairs = Path(f"{self.log}.env").read_text().split("\0")
        return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    made = Fake(tmp_path)
    monkeypatch.setenv("PATH", f"{made.script.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(module, "_version", lambda found: "v3.260.0")
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project" / ".tandem" / "sandbox" / "dev"
    made.mkdir(parents=True)
    (made.parents[2] / "Pulumi.yaml").write_text(yaml.safe_dump(SETTINGS), encoding="utf-8")
    return made


def stack_file(folder: Path, text: str) -> Path:
    file = folder.parents[2] / "Pulumi.dev.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def known(folder: Path) -> None:
    """The backend knows the stack."""
    place = folder / "state" / ".pulumi" / "stacks" / "tandem" / "dev.json"
    place.parent.mkdir(parents=True)
    place.touch()


def test_the_first_preparation_copies_the_files_and_makes_the_stack(fake: Fake, folder: Path) -> None:
    file = stack_file(folder, "config: {a:b: 1}\nencryptionsalt: of the user\n")
    Pulumi(folder, "dev").prepare(folder.parents[2], file)
    project = yaml.safe_load((folder / "Pulumi.yaml").read_text())
    options = {"toolchain": "pip", "virtualenv": sys.prefix}
    main = str(folder.parents[2] / "program")
    assert project == {"name": "tandem", "runtime": {"name": "python", "options": options}, "main": main}
    assert yaml.safe_load((folder / "Pulumi.dev.yaml").read_text()) == {"config": {"a:b": 1}}
    assert "signal.signal(signal.SIGINT, signal.SIG_DFL)" in (folder / "python" / "sitecustomize.py").read_text()
    assert fake.calls == [[str(folder), "stack", "init", "dev"]]
    assert (folder / "state").is_dir(), "pulumi makes no folder for its backend"


def test_a_later_preparation_keeps_the_salt_and_the_stack(fake: Fake, folder: Path) -> None:
    known(folder)
    (folder / "Pulumi.dev.yaml").write_text("config: {a:b: 1}\nencryptionsalt: ours\n", encoding="utf-8")
    one = Pulumi(folder, "dev")
    one.prepare(folder.parents[2], stack_file(folder, "{}"))
    assert yaml.safe_load((folder / "Pulumi.dev.yaml").read_text()) == {"config": {}, "encryptionsalt": "ours"}
    one.prepare(folder.parents[2], None)
    assert yaml.safe_load((folder / "Pulumi.dev.yaml").read_text()) == {"config": {}, "encryptionsalt": "ours"}
    assert fake.calls == []


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (b"config: {}\n", True),
        (b"config: {a:b: 1}\n", True),
        *((cut_off, False) for cut_off in (b"config:\n", b"a\n", b"{", b"config: {a:b: \xc3")),
    ],
)
def test_a_truncated_private_copy_is_made_again(fake: Fake, folder: Path, text: bytes, whole: bool) -> None:
    one = Pulumi(folder, "dev")
    assert one.has_stack_file is False
    (folder / "Pulumi.dev.yaml").write_bytes(text)
    assert one.has_stack_file is whole


def test_the_environment_is_that_of_the_caller_without_clouds(
    fake: Fake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_PROFILE", "AWS_REGION", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "PULUMI_ACCESS_TOKEN"):
        monkeypatch.setenv(name, "of the caller")
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    monkeypatch.setenv("LIKE_AWS_REGION", "kept")
    one = Pulumi(folder, "dev")
    one.providers, one.stack_folder = "aws:1", folder / ".." / "mine"
    one.ask("whoami")
    found = fake.variables
    assert found["TANDEM_STACK_FOLDER"] == str((folder.parent / "mine").resolve())
    assert {key: value for key, value in found.items() if key.startswith(("AWS_", "KUBE", "PULUMI_"))} == {
        "PULUMI_BACKEND_URL": f"file://{folder}/state?metadata=skip",
        "PULUMI_CONFIG_PASSPHRASE": "sandbox",
        "PULUMI_DEBUG_PROVIDERS": "aws:1",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_HOME": f"{folder}/home",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    assert (found["PYTHONPATH"], found["LIKE_AWS_REGION"]) == (f"{folder}/python:/theirs", "kept")
    monkeypatch.delenv("PYTHONPATH")
    one.ask("whoami")
    assert fake.variables["PYTHONPATH"] == f"{folder}/python"


def test_preparing_and_reading_commands_report_why_they_failed(fake: Fake, folder: Path) -> None:
    one = Pulumi(folder, "dev")
    fake.does("echo looked; exit 0")
    assert one.ask("stack", "ls") == "looked\n"
    fake.does("echo out; echo why >&2; exit 3")
    with pytest.raises(FailedError, match=rf"^`pulumi stack ls` failed in {folder}: why$"):
        one.ask("stack", "ls")
    fake.does("echo out; exit 3")
    with pytest.raises(FailedError, match=r": out$"):
        one.ask("stack", "ls")


def test_a_lock_is_cancelled_only_where_one_is_left(fake: Fake, folder: Path) -> None:
    one = Pulumi(folder, "dev")
    assert (one.release(), fake.calls) == (False, [])
    lock = folder / "state" / ".pulumi" / "locks" / "organization" / "tandem" / "dev" / "1.json"
    lock.parent.mkdir(parents=True)
    lock.touch()
    assert (one.release(), fake.calls) == (True, [[str(folder), "cancel", "--yes", "--stack", "dev"]])


def test_the_deployment_is_read_and_changed(fake: Fake, folder: Path) -> None:
    one = Pulumi(folder, "dev")
    assert (one.state(), fake.calls) == ({}, []), "the backend does not know the stack"
    known(folder)
    fake.does("echo '{\"deployment\": null}'")
    assert one.state() == {}, "before the first `up`"
    exported = '{"version": 3, "deployment": {"resources": []}}'
    fake.does(f"[ $2 = export ] && echo '{exported}' || cp edited.json {fake.log}.json")
    assert one.state() == {"resources": []}
    one.edit_state(lambda deployment: deployment["resources"].append("one"))
    assert yaml.safe_load(Path(f"{fake.log}.json").read_text()) == {"version": 3, "deployment": {"resources": ["one"]}}
    export, edited = [str(folder), "stack", "export", "--stack", "dev"], folder / "edited.json"
    assert fake.calls == [export] * 3 + [[str(folder), "stack", "import", "--stack", "dev", "--file", str(edited)]]
    assert not edited.exists()


def waiting(home: Path) -> "subprocess.Popen[bytes]":
    """A process that has begun: `Popen` returns before the kernel shows the environment of the new program."""
    environment = {"PATH": os.environ["PATH"], "PULUMI_HOME": str(home)}
    process = subprocess.Popen(
        ["sh", "-c", "echo; read line"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout
    process.stdout.readline()
    return process


def test_the_remains_of_a_killed_command_are_removed(
    fake: Fake, folder: Path, proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attributes, kept = folder / "state" / "deep" / "a.json.attrs", folder / "state" / "deep" / "a.json"
    attributes.parent.mkdir(parents=True)
    attributes.touch()
    kept.touch()
    (proc / "1").symlink_to("/proc/that/ended/meanwhile")
    processes = ours, _ = waiting(folder / "home"), waiting(folder / "home2")
    for process in processes:
        (proc / str(process.pid)).symlink_to(f"/proc/{process.pid}")
    killed: list[tuple[int, int]] = []
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "kill", lambda *call: killed.append(call))
            Pulumi(folder, "dev").clear()
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert killed == [(ours.pid, signal.SIGKILL)]
    assert [file.name for file in attributes.parent.iterdir()] == [kept.name]


@pytest.mark.parametrize(
    ("body", "code", "ended"), [("", 0, False), ("exit 255", 255, False), ("kill -9 $$", -9, True)]
)
def test_only_a_pulumi_that_a_signal_ended_cannot_end_its_children(
    fake: Fake, folder: Path, monkeypatch: pytest.MonkeyPatch, body: str, code: int, ended: bool
) -> None:
    homes: list[Path] = []
    monkeypatch.setattr(module, "end_running", homes.append)
    fake.does(body)
    assert Pulumi(folder, "dev").run("up") == code
    assert homes == [folder / "home"] * ended
    assert fake.variables["PULUMI_HOME"] == str(folder / "home")


def test_while_pulumi_runs_it_gets_sigterm_as_ctrl_c_and_the_terminal_sends_ctrl_c_itself() -> None:
    ours, process = {number: Mock() for number in (signal.SIGINT, signal.SIGTERM)}, Mock()
    before = {number: signal.signal(number, handler) for number, handler in ours.items()}
    try:
        with module._interrupts_left_to(process):
            for number in ours:
                handler: Any = signal.getsignal(number)
                handler(number, None)
        assert {number: signal.getsignal(number) for number in ours} == ours
    finally:
        for number, outer in before.items():
            signal.signal(number, outer)
    assert process.method_calls == [call.send_signal(signal.SIGINT)]
    assert not any(handler.called for handler in ours.values())


def test_progress_goes_to_the_given_stream(fake: Fake, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fake.does("echo progress; exit 7")
    one = Pulumi(folder, "dev")
    assert one.run("up", "--yes") == 7
    assert fake.calls == [[str(folder), "up", "--yes"]]
    one.stdout = 2
    assert one.run("up") == 7
    assert capfd.readouterr() == ("progress\n", "progress\n")
