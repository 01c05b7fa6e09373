"""What `tandem chat` does."""

import argparse
import datetime
import gc
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tandem.calling import FAILED, FINE, INTERRUPTED, CallError, complain, print_json, print_line
from tandem.connection import Endpoint, NotConnectedError, connected
from tandem.conversation.screen import Screen
from tandem.conversation.talk import Speaker, Turn, talk
from tandem.conversation.transcript import Transcript, usual_name
from tandem.ollama import Ollama, OllamaError
from tandem.show import Output


def chat(parsed: argparse.Namespace) -> int:
    """Lets the two models talk; returns the exit code."""
    gc.enable()
    with connected(parsed) as endpoints, ExitStack() as open_things:
        if len(endpoints) != 2:
            raise NotConnectedError(f"a talk needs two servers, got {len(endpoints)}: give --url NAME=URL twice")
        return _Talk(parsed, endpoints, open_things).run()


class _Talk:
    """One call of the command."""

    def __init__(self, parsed: argparse.Namespace, endpoints: list[Endpoint], open_things: ExitStack) -> None:
        self._parsed = parsed
        self._versions = []
        self._speakers = []
        for endpoint in endpoints:
            with Ollama(endpoint) as asked:
                self._versions.append(asked.version())
                endpoint = asked.with_model()
            server = open_things.enter_context(Ollama(endpoint, timeout=parsed.timeout))
            self._speakers.append(Speaker(server).told(parsed.system))
        self._open_things = open_things
        self._turns: dict[int, Turn] = {}
        self._screen = None if parsed.json else Screen(Output(highlight=False))

    def run(self) -> int:
        """Talks until the last turn, a failure or Ctrl-C, and says where the transcript is."""
        path = Path(self._parsed.transcript) if self._parsed.transcript else usual_name(datetime.datetime.now())
        try:
            transcript = Transcript(path)
        except FileExistsError:
            raise CallError(f"{path} is there already: name another file with --transcript") from None
        except OSError as error:
            raise CallError(f"cannot write {path}: {error.strerror}") from error
        self._open_things.callback(transcript.close)
        options = self._options()
        endpoints = [speaker.server.endpoint for speaker in self._speakers]
        versions = list(zip(endpoints, self._versions, strict=True))
        transcript.head(versions, self._parsed.prompt, self._parsed.system, options)
        (first, second), code, why = self._speakers, FINE, ""
        try:
            for turn, piece in talk(first, second, self._parsed.prompt, self._parsed.turns, options):
                self._turns[turn.number] = turn
                transcript.add(turn, piece)
                if self._screen:
                    self._screen.add(turn, piece)
        except OllamaError as error:
            code, why = FAILED, str(error)
        except KeyboardInterrupt:
            code, why = INTERRUPTED, "stopped with Ctrl-C"
        if why:
            transcript.note(why)
        self._end(path, code, why)
        return code

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
