"""Runs `tandem chat`."""

import argparse
import datetime
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from tandem.chat.screen import Screen
from tandem.chat.talk import Speaker, Turn, talk
from tandem.chat.transcript import Transcript, TranscriptError, usual_name
from tandem.deployed.connection import connected
from tandem.deployed.endpoints import Endpoint, NotConnectedError
from tandem.deployed.ollama import ANSWER_SECONDS, Ollama, OllamaError
from tandem.terminal import FAILED, FINE, INTERRUPTED, CallError, complain, open_console, print_json, print_line

OPTION = "--timeout"


def converse(parsed: argparse.Namespace) -> int:
    """Lets the two models talk; returns the exit code."""
    with connected(parsed) as endpoints, ExitStack() as opened:
        if len(endpoints) != 2:
            raise NotConnectedError(f"chat needs two servers, not {len(endpoints)}. Pass `--url NAME=URL` twice.")
        return _Talk(parsed, endpoints, opened).run()


class _Talk:
    """One call of the command."""

    def __init__(self, parsed: argparse.Namespace, endpoints: list[Endpoint], opened: ExitStack) -> None:
        self._parsed = parsed
        self._versions = []
        servers = []
        for endpoint in endpoints:
            with _asked(endpoint, parsed.timeout) as asked:
                self._versions.append(asked.version())
                endpoint = asked.with_model()
            servers.append(opened.enter_context(Ollama(endpoint, timeout=parsed.timeout, option=OPTION)))
        alike = len({server.endpoint.model for server in servers}) == 1
        self._speakers = [Speaker(server, _label(server.endpoint, alike)).start(parsed.system) for server in servers]
        self._opened = opened
        self._turns: dict[int, Turn] = {}
        self._screen = None if parsed.json else Screen(open_console())

    def run(self) -> int:
        """Talks until the last turn, a failure or Ctrl-C, and prints the transcript's path."""
        path = Path(self._parsed.transcript) if self._parsed.transcript else usual_name(datetime.datetime.now())
        try:
            transcript = Transcript(path)
        except FileExistsError:
            raise CallError(f"{path} already exists. Choose another file with `--transcript`.") from None
        except OSError as error:
            raise CallError(
                f"cannot write {path} ({error.strerror}). Choose another file with `--transcript`."
            ) from None
        self._opened.callback(transcript.close)
        code, why = FINE, ""
        try:
            self._talk(transcript)
        except (OllamaError, TranscriptError) as error:
            code, why = FAILED, str(error)
        except KeyboardInterrupt:
            code, why = INTERRUPTED, "interrupted"
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
                # Even the piece that a full disk rejected.
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
            print_json(self._as_dict(path, code, why))
            return
        self._screen.end_line()
        print_line("", sys.stdout)
        if code == INTERRUPTED:
            print_line("Interrupted.", sys.stderr)
        elif why:
            complain(why)
        print_line(f"Transcript: {path}", sys.stderr if why else sys.stdout)

    def _as_dict(self, path: Path, code: int, why: str) -> dict[str, Any]:
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
    """The server for questions that need no model: with the usual timeout, or a shorter one from the user."""
    if timeout < ANSWER_SECONDS:
        return Ollama(endpoint, timeout=timeout, option=OPTION)
    return Ollama(endpoint)


def _label(endpoint: Endpoint, alike: bool) -> str:
    """A model's name in the conversation: its tag, with its server's name if both have the same tag."""
    return f"{endpoint.model} ({endpoint.id})" if alike else endpoint.model
