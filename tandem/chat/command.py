"""`tandem chat`: its arguments, and how the models come to talk."""

import argparse
import datetime
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from tandem.arguments import add_servers, amount, count
from tandem.chat.screen import Screen
from tandem.chat.talk import Speaker, Turn, talk
from tandem.chat.transcript import Transcript, TranscriptError, usual_name
from tandem.deployed.connection import connected
from tandem.deployed.endpoints import Endpoint, NotConnectedError
from tandem.deployed.ollama import ANSWER_SECONDS, Ollama, OllamaError
from tandem.terminal import (
    FAILED,
    FINE,
    INTERRUPTED,
    CallError,
    Commands,
    complain,
    open_console,
    print_json,
    print_line,
)

OPENING = "Introduce yourself in two sentences, then ask me a question about sharing things."
TURNS = 6
MAX_TOKENS = 400
TIMEOUT = 300.0
"""Seconds: the first answer of a server may wait until gigabytes of model are loaded."""


def add(commands: Commands) -> None:
    """Registers `chat`."""
    parser = commands.add_parser(
        "chat",
        description="The two models talk to each other. What they say is kept in a Markdown file.",
        epilog="Exit codes: 0 all turns done, 1 a model failed, the disk is full, or the file is refused, 2 wrong "
        "call, 130 stopped with Ctrl-C.",
    )
    add_servers(parser)
    parser.add_argument("--prompt", default=OPENING, metavar="TEXT", help="prompt of the first model")
    parser.add_argument("--turns", type=count, default=TURNS, metavar="N", help=f"answers in all (default: {TURNS})")
    parser.add_argument("--system", metavar="TEXT", help="system prompt for both")
    parser.add_argument("--temperature", type=float, metavar="T", help="the models' own when absent")
    parser.add_argument("--seed", type=int, metavar="N", help="with the same seed the same models say the same")
    parser.add_argument(
        "--max-tokens",
        type=count,
        default=MAX_TOKENS,
        metavar="N",
        help=f"at which an answer is cut (default: {MAX_TOKENS})",
    )
    parser.add_argument(
        "--timeout",
        type=amount,
        default=TIMEOUT,
        metavar="SECONDS",
        help=f"give up on a server that sends nothing new for this long (default: {TIMEOUT:.0f})",
    )
    parser.add_argument("--transcript", metavar="FILE", help="where to write (default: chat-DATE-TIME.md)")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end instead")
    parser.set_defaults(run=_run)


OPTION = "--timeout"


def _run(parsed: argparse.Namespace) -> int:
    """Lets the two models talk; returns the exit code."""
    with connected(parsed) as endpoints, ExitStack() as open_things:
        if len(endpoints) != 2:
            raise NotConnectedError(f"chat needs two servers, not {len(endpoints)}. Pass `--url NAME=URL` twice.")
        return _Talk(parsed, endpoints, open_things).run()


class _Talk:
    """One call of the command."""

    def __init__(self, parsed: argparse.Namespace, endpoints: list[Endpoint], open_things: ExitStack) -> None:
        self._parsed = parsed
        self._versions = []
        servers = []
        for endpoint in endpoints:
            with _asked(endpoint, parsed.timeout) as asked:
                self._versions.append(asked.version())
                endpoint = asked.with_model()
            servers.append(open_things.enter_context(Ollama(endpoint, timeout=parsed.timeout, option=OPTION)))
        alike = len({server.endpoint.model for server in servers}) == 1
        self._speakers = [Speaker(server, _label(server.endpoint, alike)).told(parsed.system) for server in servers]
        self._open_things = open_things
        self._turns: dict[int, Turn] = {}
        self._screen = None if parsed.json else Screen(open_console())

    def run(self) -> int:
        """Talks until the last turn, a failure or Ctrl-C, and says where the transcript is."""
        path = Path(self._parsed.transcript) if self._parsed.transcript else usual_name(datetime.datetime.now())
        try:
            transcript = Transcript(path)
        except FileExistsError:
            raise CallError(f"{path} already exists. Name another file with `--transcript`.") from None
        except OSError as error:
            raise CallError(f"cannot write {path} ({error.strerror}). Name another file with `--transcript`.") from None
        self._open_things.callback(transcript.close)
        code, why = FINE, ""
        try:
            self._talk(transcript)
        except (OllamaError, TranscriptError) as error:
            code, why = FAILED, str(error)
        except KeyboardInterrupt:
            code, why = INTERRUPTED, "stopped with Ctrl-C"
        if why:
            with suppress(TranscriptError):
                transcript.note(why)
        self._end(path, code, why)
        return code

    def _talk(self, transcript: Transcript) -> None:
        (first, second), options = self._speakers, self._options()
        transcript.head((first, second), self._versions, self._parsed.prompt, self._parsed.system, options)
        for turn, piece in talk(first, second, self._parsed.prompt, self._parsed.turns, options):
            self._turns[turn.number] = turn
            try:
                transcript.add(turn, piece)
            finally:
                # Also the piece that a full disk did not take.
                if self._screen:
                    self._screen.add(turn, piece)

    def _options(self) -> dict[str, Any]:
        given = {
            "temperature": self._parsed.temperature,
            "seed": self._parsed.seed,
            "num_predict": self._parsed.max_tokens,
        }
        return {name: value for name, value in given.items() if value is not None}

    def _end(self, path: Path, code: int, why: str) -> None:
        if not self._screen:
            print_json(self._told(path, code, why))
            return
        self._screen.end_line()
        print_line("", sys.stdout)
        if why:
            complain(why)
        print_line(f"Transcript: {path}", sys.stderr if why else sys.stdout)

    def _told(self, path: Path, code: int, why: str) -> dict[str, Any]:
        ended = {FINE: "complete", FAILED: "failed", INTERRUPTED: "interrupted"}[code]
        turns = [
            {
                "speaker": turn.speaker.id,
                "model": turn.speaker.server.endpoint.model,
                "text": turn.text.strip(),
                "thinking": turn.thinking.strip(),
                "done_reason": turn.done_reason,
            }
            for turn in self._turns.values()
        ]
        return {"ended": ended, "why": why, "transcript": str(path), "turns": turns}


def _asked(endpoint: Endpoint, timeout: float) -> Ollama:
    """The server for questions that need no model: they get no more time than usual, and no more than a word."""
    if timeout < ANSWER_SECONDS:
        return Ollama(endpoint, timeout=timeout, option=OPTION)
    return Ollama(endpoint)


def _label(endpoint: Endpoint, alike: bool) -> str:
    """What the talk calls a model: its tag, with the name of its server where both have the same."""
    return f"{endpoint.model} ({endpoint.id})" if alike else endpoint.model
