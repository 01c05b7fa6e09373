"""`tandem run`: one answer, a conversation, and what both cost, through the ports of a fake cluster."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem.chat import prompt, session
from tandem.chat.screen import Screen
from tandem.deployed.endpoints import Endpoint
from tandem.deployed.ollama import Ollama
from tandem.terminal import CallError
from tests.command import Ended, call
from tests.tandem import fake_ollama
from tests.tandem.deployed.pretended import Clock
from tests.tandem.deployed.reachable import Reachable, reachable, types
from tests.tandem.fake_ollama import FakeOllama, ollama

pytestmark = pytest.mark.slow

EMBEDS = [{"name": "llama2:7b"}, {"name": "nomic-embed-text"}]


@pytest.fixture
def llama() -> Iterator[FakeOllama]:
    with ollama("llama2:7b", pieces=["Because ", "it is."]) as server:
        yield server


@pytest.fixture
def mistral() -> Iterator[FakeOllama]:
    with ollama("mistral:7b", pieces=["Bonjour."]) as server:
        yield server


@pytest.fixture
def stack(
    llama: FakeOllama, mistral: FakeOllama, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Reachable]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    pipes(monkeypatch, "")
    monkeypatch.setattr(session, "_usd_per_hour", lambda plan: 0.5)
    with reachable(tmp_path, {"llama2-7b": llama, "mistral-7b": mistral}) as found:
        yield found


def pipes(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def begin(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """The next session takes this long."""
    clock = Clock()
    begun = session.Session(clock)
    clock.now = seconds
    monkeypatch.setattr(session, "Session", lambda: begun)


def run(stack: Reachable, *words: str) -> Ended:
    return call("run", str(stack.file), *words, *stack.way)


def asked(server: FakeOllama) -> list[list[tuple[str, str]]]:
    """The conversation that each request had."""
    return [[(said["role"], said["content"]) for said in body["messages"]] for body in server.requests]


def test_a_prompt_is_answered_once_and_only_the_answer_is_on_stdout(stack: Reachable, llama: FakeOllama) -> None:
    ended = run(stack, "llama2:7b", "Why is the sky blue?")
    assert (ended.returncode, ended.stdout) == (0, "Because it is.\n")
    assert asked(llama) == [[("user", "Why is the sky blue?")]]
    assert llama.requests[0]["options"] == {}
    assert "of stack mine at $0.500 per hour: less than $0.01. The stack costs this while it runs" in ended.stderr
    # The fake says 20 ms for each of two tokens.
    assert ended.stderr.endswith("\n1 answer, 2 tokens, 50.0 tokens/s.\n")


@pytest.mark.parametrize(
    ("words", "model"),
    [
        (["Why is it so?"], "llama"),
        (["llama2-7b", "Why?"], "llama"),
        (["mistral:7b", "Why?"], "mistral"),
        (["mistral-7b", "Why?"], "mistral"),
    ],
)
def test_the_first_model_answers_unless_another_is_named_by_tag_or_id(
    words: list[str], model: str, stack: Reachable, request: pytest.FixtureRequest
) -> None:
    assert run(stack, *words).returncode == 0
    assert asked(request.getfixturevalue(model)) == [[("user", words[-1])]]


def test_without_a_place_for_it_a_conversation_has_no_history(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Path:
        raise CallError("no folder")

    monkeypatch.setattr(prompt, "state_folder", refuse)
    with prompt.history():
        pass


def test_words_and_options_come_in_any_order(
    stack: Reachable, mistral: FakeOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[tuple[float, str, bool]] = []

    def opened(endpoint: Endpoint, **options: Any) -> Ollama:
        limits.append((options["timeout"], options["option"], "trouble" in options))
        return Ollama(endpoint, **options)

    monkeypatch.setattr(session, "Ollama", opened)
    ended = call("run", *stack.way, str(stack.file), "--yes", "mistral:7b", "--timeout", "7", "--seed", "7", "Why?")
    assert (ended.returncode, asked(mistral), limits) == (0, [[("user", "Why?")]], [(7, "--timeout", True)])


def test_piped_text_comes_before_the_prompt_as_in_ollama_run(
    stack: Reachable, llama: FakeOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipes(monkeypatch, "a long text\n")
    assert run(stack, "llama2:7b", "Sum it up.").returncode == 0
    pipes(monkeypatch, "only a text\n")
    assert run(stack, "--system", "Be short.", "--seed", "7", "--temperature", "0", "--max-tokens", "9").returncode == 0
    first, second = asked(llama)
    assert first == [("user", "a long text\n\nSum it up.")]
    assert second == [("system", "Be short."), ("user", "only a text")]
    assert llama.requests[1]["options"] == {"seed": 7, "temperature": 0, "num_predict": 9}


def test_json_has_the_answer_its_tokens_and_the_cost(
    stack: Reachable, llama: FakeOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(monkeypatch, 36.04)
    monkeypatch.setattr(session, "_usd_per_hour", lambda plan: 0.512345)
    monkeypatch.setattr(fake_ollama, "TOKEN_NS", 17_000_000)  # 1 / 0.017 s is 58.82
    llama.thinking = ["hm"]
    ended = run(stack, "llama2:7b", "Why?", "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.json == {
        "schema_version": 1,
        "stack": "mine",
        "id": "llama2-7b",
        "model": "llama2:7b",
        "text": "Because it is.",
        "thinking": "hm",
        "done_reason": "stop",
        "tokens": 3,
        "tokens_per_s": 58.8,
        "waited_s": 0.0,
        "seconds": 36.0,
        "usd_per_hour": 0.5123,
        # 36.04 s of 3,600 at $0.512345
        "usd": 0.005129,
    }


def test_without_times_of_the_server_there_is_no_speed(stack: Reachable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_ollama, "TOKEN_NS", 0)
    assert run(stack, "llama2:7b", "Why?", "--json").json["tokens_per_s"] is None
    assert run(stack, "llama2:7b", "Why?").stderr.endswith("\n1 answer, 2 tokens.\n")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (1.4, "1 s of stack mine at $0.500 per hour: less than $0.01."),
        (71, "71 s of stack mine at $0.500 per hour: less than $0.01."),
        (119.4, "119 s of stack mine at $0.500 per hour: about $0.02."),
        (120, "2 min of stack mine at $0.500 per hour: about $0.02."),
        (7500, "2 h 5 min of stack mine at $0.500 per hour: about $1.04."),
    ],
)
def test_the_cost_is_the_time_of_the_session_at_the_price_of_the_stack(
    seconds: float, said: str, stack: Reachable, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(monkeypatch, seconds)
    assert run(stack, "llama2:7b", "Why?").stderr.startswith(said)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["lama2:7b", "Why?"], "error: stack mine has no model `lama2:7b`. Did you mean llama2:7b"),
        (["gpt", "Why?"], "error: stack mine has no model `gpt`. Name one of them: llama2:7b, mistral:7b.\n"),
        (["llama2:7b"], "error: the prompt is missing. Write it after the model, or pipe text into the command.\n"),
    ],
)
def test_wrong_words_are_one_error_before_anything_is_reached(words: list[str], says: str, stack: Reachable) -> None:
    ended = run(stack, *words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(says)
    assert stack.kubernetes.asked == []


def test_json_needs_a_prompt_for_it_is_one_object(stack: Reachable, monkeypatch: pytest.MonkeyPatch) -> None:
    types(monkeypatch)
    ended = run(stack, "llama2:7b", "--json")
    assert (ended.returncode, ended.json["error"]) == (
        2,
        "--json answers one prompt. Write the prompt after the model.",
    )


def test_an_embedding_model_is_refused_with_what_it_can_do(llama: FakeOllama, stack: Reachable, tmp_path: Path) -> None:
    with reachable(tmp_path, {"llama2-7b": llama}, models=[*reversed(EMBEDS)]) as found:
        ended = run(found, "nomic-embed-text", "Why?")
        assert ended.returncode == 2
        assert ended.stderr == (
            "error: nomic-embed-text:latest only embeds text, so it cannot answer. "
            f"`tandem env {found.file} nomic-embed-text` prints its address; send text to its /api/embed.\n"
        )
        # It is the first one, but no default.
        assert run(found, "Why is that?").stdout == "Because it is.\n"


def test_a_model_of_a_pool_that_the_file_parks_is_refused(stack: Reachable, tmp_path: Path) -> None:
    nodes = {"instance-types": ["g4dn.xlarge"], "min": 0, "desired": 0, "max": 1}
    with reachable(tmp_path, {}, gpu_nodes=nodes) as found:
        ended = run(found, "llama2:7b", "Why?")
    assert (ended.returncode, ended.stderr) == (
        2,
        "error: llama2:7b does not run: its pool `gpu` has `desired: 0`. Write `desired: 1` in the stack file, and "
        "run `pulumi up --stack mine`.\n",
    )


def test_a_failed_answer_ends_the_command_with_one_line(stack: Reachable, llama: FakeOllama) -> None:
    llama.fault = "says"
    ended = run(stack, "llama2:7b", "Why?")
    assert ended.returncode == 1
    assert "stopped early: an error was encountered while running the model: CUDA error" in ended.stderr


def test_a_conversation_remembers_itself_until_it_is_cleared(
    stack: Reachable, llama: FakeOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    types(monkeypatch, "Why?", "/clear", '"""Two', 'lines"""', "Really?", "/bye", "never read")
    ended = run(stack, "--system", "Be short.")
    system, answer = ("system", "Be short."), ("assistant", "Because it is.")
    assert asked(llama) == [
        [system, ("user", "Why?")],
        [system, ("user", "Two\nlines")],
        [system, ("user", "Two\nlines"), answer, ("user", "Really?")],
    ]
    assert ended.returncode == 0
    assert ended.stdout.count("Because it is.\n") == 3
    assert ended.stderr.startswith("llama2:7b of stack mine. Write /? for help, /bye to leave.\n")
    assert "The conversation is forgotten.\n" in ended.stderr
    assert "\n3 answers, 6 tokens, 50.0 tokens/s.\n" in ended.stderr


def test_help_unknown_commands_and_ctrl_c_leave_the_conversation_open(
    stack: Reachable, llama: FakeOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    types(monkeypatch, "/?", "/help", "/bey", "^C", " ", "/usr/bin is what?")
    ended = run(stack)
    assert ended.returncode == 0
    help = (
        "  /bye, Ctrl-D  leave\n"
        "  /clear        forget the conversation\n"
        "  /?            show this help\n"
        "  Ctrl-C        stop the answer\n"
        '  """           begin and end a message of several lines\n'
    )
    assert ended.stderr.count(help) == 2
    assert ended.stderr.count("unknown command /bey. Write /? for help.\n") == 1
    assert ended.stderr.count("Leave with /bye or Ctrl-D.\n") == 1
    assert asked(llama) == [[("user", "/usr/bin is what?")]]


def test_a_failed_answer_is_no_part_of_the_conversation_which_goes_on(
    stack: Reachable, llama: FakeOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    llama.fault, llama.fault_every = "busy", 2
    types(monkeypatch, "Why?", "Really?")
    ended = run(stack)
    assert ended.returncode == 0
    assert asked(llama) == [[("user", "Why?")], [("user", "Really?")]]
    assert "answered with 503: server busy" in ended.stderr
    llama.fault_every = 1
    types(monkeypatch, "Why?")
    assert run(stack).returncode == 1


def test_a_stopped_answer_counts_as_far_as_it_came(
    stack: Reachable, llama: FakeOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops = Screen.add

    def stop(screen: Any, turn: Any, piece: Any) -> None:
        stops(screen, turn, piece)
        if turn.number == 1 and len(llama.requests) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Screen, "add", stop)
    types(monkeypatch, "Why?", "Go on.")
    assert run(stack).returncode == 0
    assert asked(llama)[1] == [("user", "Why?"), ("assistant", "Because"), ("user", "Go on.")]


def test_thoughts_are_not_part_of_the_answer(stack: Reachable, llama: FakeOllama) -> None:
    llama.thinking = ["hm"]
    ended = run(stack, "llama2:7b", "Why?")
    assert ended.stdout == "Because it is.\n"
    assert ended.stderr.startswith("(thinking)\n")


@pytest.mark.parametrize(("options", "why"), [([], "its context is full"), (["--max-tokens", "2"], "--max-tokens")])
def test_a_cut_answer_says_why(options: list[str], why: str, stack: Reachable, llama: FakeOllama) -> None:
    llama.pieces = None
    ended = run(stack, "llama2:7b", "Why?", *options)
    assert f"(truncated: {why})\n" in ended.stderr
