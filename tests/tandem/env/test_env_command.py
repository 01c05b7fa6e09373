"""`tandem env`: a real process in the background keeps the ports to a fake cluster open."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import yaml

from sharing.files import lock
from tandem.deployed.endpoints import NotConnectedError
from tandem.env import background, foreground
from tandem.env.record import Place
from tests.command import ROOT, Ended, call
from tests.tandem.deployed.pretended import Clock, connected, well
from tests.tandem.deployed.reachable import PODS, Reachable, reachable
from tests.tandem.fake_ollama import FakeOllama, ollama

pytestmark = pytest.mark.slow


@pytest.fixture
def mistral() -> Iterator[FakeOllama]:
    with ollama("mistral:7b", version="mistral's") as server:
        yield server


@pytest.fixture
def stack(mistral: FakeOllama, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reachable]:
    """Its ports are closed at the end, also after a failed test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with (
        ollama("llama2:7b", version="llama's") as llama,
        reachable(tmp_path, {"llama2-7b": llama, "mistral-7b": mistral}) as found,
    ):
        yield found
        if found.file.exists():
            call("env", str(found.file), "--stop")


def env(stack: Reachable, *words: str) -> Ended:
    return call("env", str(stack.file), *words, *stack.way)


def opened(stack: Reachable, *words: str) -> dict[str, Any]:
    """The process and its ports, as programs get them."""
    ended = env(stack, "--json", *words)
    assert (ended.returncode, ended.stderr) == (0, "")
    found: dict[str, Any] = ended.json
    return found


def urls(found: dict[str, Any]) -> list[str]:
    return [model["ollama_host"] for model in found["models"]]


def versions(found: dict[str, Any]) -> list[str]:
    return [httpx.get(f"{url}/api/version").json()["version"] for url in urls(found)]


def variables(shell: str, lines: str) -> list[str]:
    """What a shell has after it ran the lines."""
    names = "$OLLAMA_HOST $OPENAI_BASE_URL $OPENAI_API_KEY"
    done = subprocess.run([shell, "-c", f"{lines}\necho {names}"], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_command_returns_and_the_ports_stay_until_stop(stack: Reachable) -> None:
    found = opened(stack)
    assert found["schema_version"] == 1
    assert (found["stack"], [model["id"] for model in found["models"]]) == ("mine", ["llama2-7b", "mistral-7b"])
    assert [model["model"] for model in found["models"]] == ["llama2:7b", "mistral:7b"]
    assert [model["openai_base_url"] for model in found["models"]] == [f"{url}/v1" for url in urls(found)]
    assert versions(found) == ["llama's", "mistral's"]
    # No process of this one, nor of its terminal.
    assert os.getsid(found["pid"]) == found["pid"]
    assert opened(stack) == found
    ended = call("env", str(stack.file), "--stop")
    assert (ended.returncode, ended.stderr) == (0, f"The ports of stack {stack.file} are closed.\n")
    assert ended.stdout == "unset OLLAMA_HOST\nunset OPENAI_BASE_URL\nunset OPENAI_API_KEY\n"
    with pytest.raises(httpx.ConnectError):
        versions(found)
    ended = call("env", str(stack.file), "--stop", "--json")
    assert ended.json == {"schema_version": 1, "stopped": False}
    assert call("env", str(stack.file), "--stop").stderr == f"No ports of stack {stack.file} were open.\n"


@pytest.mark.parametrize(("words", "first"), [((), 0), (("mistral:7b",), 1), (("mistral-7b",), 1)])
def test_the_shell_gets_the_variables_of_one_model_and_a_comment_about_the_other(
    words: tuple[str, ...], first: int, stack: Reachable
) -> None:
    ended = env(stack, *words)
    own, other = urls(opened(stack))[first], urls(opened(stack))[1 - first]
    tags = ["llama2:7b", "mistral:7b"]
    assert ended.stderr == ""
    assert ended.stdout.splitlines() == [
        f"export OLLAMA_HOST={own}",
        f"export OPENAI_BASE_URL={own}/v1",
        "export OPENAI_API_KEY=ollama",
        f"# {tags[first]}: {own}",
        f"# {tags[1 - first]}: {other} (tandem env {stack.file} {['mistral-7b', 'llama2-7b'][first]})",
        f'# Use: eval "$(tandem env {stack.file})"   End: tandem env {stack.file} --stop',
    ]
    for lines in (ended.stdout, ended.stdout.replace("\n", " ")):
        # `eval $(tandem env …)` without quotes makes one line of all.
        assert variables("sh", lines) == [own, f"{own}/v1", "ollama"]


def test_fish_gets_its_own_words(stack: Reachable) -> None:
    lines = env(stack, "--shell", "fish").stdout.splitlines()
    url = urls(opened(stack))[0]
    assert lines[:3] == [
        f"set -gx OLLAMA_HOST {url}",
        f"set -gx OPENAI_BASE_URL {url}/v1",
        "set -gx OPENAI_API_KEY ollama",
    ]
    assert f"# Use: tandem env {stack.file} --shell fish | source   End: " in lines[-1]
    if fish := shutil.which("fish"):
        assert variables(fish, "\n".join(lines)) == [url, f"{url}/v1", "ollama"]
    ended = call("env", str(stack.file), "--stop", "--shell", "fish")
    assert ended.stdout == "set -e OLLAMA_HOST\nset -e OPENAI_BASE_URL\nset -e OPENAI_API_KEY\n"


def test_a_killed_process_is_replaced_by_one_with_the_same_ports(stack: Reachable) -> None:
    before = opened(stack)
    os.kill(before["pid"], signal.SIGKILL)
    wait_for_end(before["pid"])
    after = opened(stack)
    assert (after["pid"] != before["pid"], urls(after)) == (True, urls(before))
    assert versions(after) == ["llama's", "mistral's"]


def wait_for_end(pid: int) -> None:
    """The kernel has dropped its lock and its ports once it is no more, or a zombie."""
    while Path(f"/proc/{pid}").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text():
        time.sleep(0.01)


def test_a_port_that_another_program_took_is_replaced(stack: Reachable) -> None:
    before = opened(stack)
    call("env", str(stack.file), "--stop")
    port = int(urls(before)[0].rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        after = opened(stack)
    assert urls(after)[0] != urls(before)[0]
    assert urls(after)[1] == urls(before)[1]


def test_a_broken_record_of_closed_ports_is_replaced(stack: Reachable) -> None:
    place = Place(str(stack.file))
    record = place.lock_path.with_suffix(".json")
    for content in ("", "{", "[" * 100_000, '{"pid": "x"}'):
        record.write_text(content)
        assert versions(opened(stack)) == ["llama's", "mistral's"]
        call("env", str(stack.file), "--stop")


def test_a_broken_record_of_open_ports_is_one_line(stack: Reachable, monkeypatch: pytest.MonkeyPatch) -> None:
    found = opened(stack)
    record = Place(str(stack.file)).lock_path.with_suffix(".json")
    kept = record.read_text()
    record.write_text("{")
    monkeypatch.setattr(background, "WAIT_SECONDS", 0.4)
    for words in ((), ("--stop",)):
        ended = call("env", str(stack.file), *words)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr == (
            f"error: The process that has {record.with_suffix('.lock')} open opens no ports for stack mine. End it, "
            "and run the command again.\n"
        )
    record.write_text(kept)
    assert opened(stack) == found


def test_other_models_in_the_file_get_new_ports(stack: Reachable) -> None:
    before = opened(stack)
    values = yaml.safe_load(stack.file.read_text())
    values["config"]["tandem:models"][1]["id"] = "second"
    stack.file.write_text(yaml.safe_dump(values))
    after = opened(stack)
    assert [model["id"] for model in after["models"]] == ["llama2-7b", "second"]
    assert (after["pid"] != before["pid"], urls(after)[0]) == (True, urls(before)[0])


def test_another_kubeconfig_gets_new_ports_but_none_takes_those_that_are_open(stack: Reachable, tmp_path: Path) -> None:
    before = opened(stack)
    assert call("env", str(stack.file), "--json").json == before
    other = tmp_path / "other"
    other.write_text(stack.kubeconfig.read_text())
    after = call("env", str(stack.file), "--json", "--kubeconfig", str(other)).json
    assert after["pid"] != before["pid"]


def test_a_stack_that_cannot_be_reached_is_one_error_of_the_process(stack: Reachable, tmp_path: Path) -> None:
    ended = call("env", str(stack.file), "--kubeconfig", str(tmp_path / "nowhere"))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        f"error: cannot read the kubeconfig {tmp_path / 'nowhere'}: No such file or directory. Pass another one.\n"
    )


def test_a_process_that_dies_without_a_word_names_its_log(stack: Reachable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    ended = env(stack)
    log = Place(str(stack.file)).log
    assert (ended.returncode, ended.stderr) == (1, f"error: the ports were not opened. See why in {log}.\n")


def test_a_model_that_does_not_answer_is_a_warning_and_its_port_finds_it_later(stack: Reachable) -> None:
    stack.runs("mistral-7b")
    ended = env(stack)
    log = Place(str(stack.file)).log
    assert ended.returncode == 0
    assert ended.stdout.startswith("export OLLAMA_HOST=http://127.0.0.1:")
    assert ended.stderr == (
        f"warning: llama2:7b does not answer now. Run `tandem run {stack.file} llama2-7b`: it wakes a parked model, or "
        f"says what is missing. The log is {log}.\n"
    )
    stack.runs("llama2-7b", "mistral-7b")
    assert versions(opened(stack)) == ["llama's", "mistral's"]


def test_files_are_for_this_user_alone(stack: Reachable) -> None:
    opened(stack)
    folder = Place(str(stack.file)).lock_path.parent
    assert {oct(path.stat().st_mode & 0o777) for path in (folder, folder.parent)} == {"0o700"}
    kinds = {path.suffix: oct(path.stat().st_mode & 0o777) for path in folder.iterdir()}
    assert kinds == {".lock": "0o600", ".json": "0o600", ".log": "0o600"}


def test_a_folder_that_cannot_be_made_is_one_line(
    stack: Reachable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    ended = env(stack)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"error: the folder {tmp_path}/file/tandem/forwards cannot be made (")


def test_in_the_foreground_the_ports_stay_until_ctrl_c(stack: Reachable, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(foreground, "watch", interrupt)
    ended = env(stack, "--foreground")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("export OLLAMA_HOST=http://127.0.0.1:")
    assert ended.stdout.endswith("   End: Ctrl-C\n")
    assert not Place(str(stack.file)).is_held()


def test_two_processes_never_have_the_ports(stack: Reachable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreground, "LOCK_PAUSE_SECONDS", 0)
    with lock(Place(str(stack.file)).lock_path):
        ended = env(stack, "--foreground")
    assert ended == Ended(
        2,
        "",
        "error: another process has the ports of stack mine. Run `tandem env mine` to use them, or `tandem env mine "
        "--stop` first.\n",
    )


def test_the_log_has_each_trouble_once_and_a_cluster_that_does_not_answer_for_30_minutes_ends_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster: Any = well()
    asked: list[str] = []

    def read(path: str) -> None:
        asked.append(path)
        if len(asked) > 2:
            raise NotConnectedError("host cannot be reached (timed out). Check it.")

    cluster.read = read
    clock = Clock()
    forward: Any = SimpleNamespace(url="", trouble="")

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        forward.trouble = "the pod was lost" if 20 < clock.now < 40 else ""

    with pytest.raises(NotConnectedError) as raised:
        foreground.watch(connected(cluster), {"llama2-7b": forward}, sleep=sleep)
    assert str(raised.value) == (
        "the cluster has not answered for 30 minutes, so its ports are closed. Run `tandem env timeslice` to open them "
        "again."
    )
    # It answered for two minutes.
    assert (clock.now, set(asked)) == (32 * 60, {"/version"})
    lines = [line.split(" ", 2)[2] for line in capsys.readouterr().err.splitlines()]
    away = ["host cannot be reached (timed out). Check it."] * 30
    assert lines == ["the pod was lost", "llama2-7b answers again", *away]


def test_a_cluster_that_answers_again_is_not_away(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster: Any = well()
    answers = iter([False, True] * 40)

    def read(path: str) -> None:
        if (answer := next(answers, None)) is None:
            raise KeyboardInterrupt
        if not answer:
            raise NotConnectedError("away")

    cluster.read = read
    with pytest.raises(KeyboardInterrupt):
        foreground.watch(connected(cluster), {}, sleep=lambda seconds: None)


def test_a_replaced_pod_is_found_by_the_port_that_is_open(stack: Reachable, mistral: FakeOllama) -> None:
    found = opened(stack)
    pods = stack.kubernetes.answers[PODS]["items"]
    pods[0] = json.loads(json.dumps(pods[0]).replace("llama2-7b-0", "llama2-7b-1"))
    stack.kubernetes.leads[f"{PODS}/llama2-7b-1"] = int(mistral.url.rpartition(":")[2])
    assert versions(found) == ["mistral's", "mistral's"]


def test_the_guide_shows_what_the_command_prints(stack: Reachable, tmp_path: Path) -> None:
    """Except for the numbers of the ports."""
    text = (ROOT / "docs" / "how-to" / "connect-to-the-models.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"^\$ tandem env dev\n(export .*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "Pulumi.yaml").touch()
    stack.file.rename(tmp_path / "Pulumi.dev.yaml")
    ended = call("env", "dev", *stack.way, cwd=tmp_path)
    printed = re.sub(r"(?<=127\.0\.0\.1:)\d+", "PORT", ended.stdout)
    assert printed == re.sub(r"(?<=127\.0\.0\.1:)\d+", "PORT", shown)
    assert call("env", "dev", "--stop", cwd=tmp_path).stderr == "The ports of stack dev are closed.\n"
