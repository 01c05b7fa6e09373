"""Runs `tandem chat`."""

import argparse
import datetime
import sys
from collections.abc import Iterable
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
    """Lets the two models talk until the last turn, a failure or Ctrl-C, and prints the transcript's path.

    Returns the exit code.
    """
    with connected(parsed) as endpoints, ExitStack() as opened:
        if len(endpoints) != 2:
            raise NotConnectedError(f"chat needs two servers, not {len(endpoints)}. Pass `--url NAME=URL` twice.")
        versions, servers = [], []
        for endpoint in endpoints:
            with _asked(endpoint, parsed.timeout) as asked:
                versions.append(asked.version())
                endpoint = asked.with_model()
            servers.append(opened.enter_context(Ollama(endpoint, timeout=parsed.timeout, option=OPTION)))
        alike = len({server.endpoint.model for server in servers}) == 1
        speakers = [Speaker(server, _label(server.endpoint, alike)).start(parsed.system) for server in servers]
        (first, second), options = speakers, options_of(parsed)
        path = Path(parsed.transcript) if parsed.transcript else usual_name(datetime.datetime.now())
        transcript = _opened(path)
        opened.callback(transcript.close)
        screen = None if parsed.json else Screen(open_console())
        turns: dict[int, Turn] = {}
        code, why = FINE, ""
        try:
            transcript.head(speakers, versions, parsed.prompt, parsed.system, options)
            for turn, piece in talk(first, second, parsed.prompt, parsed.turns, options):
                turns[turn.number] = turn
                try:
                    transcript.add(turn, piece)
                finally:
                    # Even the piece that a full disk rejected.
                    if screen:
                        screen.add(turn, piece)
        except (OllamaError, TranscriptError) as error:
            code, why = FAILED, str(error)
        except KeyboardInterrupt:
            code, why = INTERRUPTED, "interrupted"
        if why:
            with suppress(TranscriptError):
                transcript.note(why)
        if screen:
            screen.end_line()
            _print_end(path, code, why)
        else:
            print_json(_as_dict(turns.values(), path, code, why))
        return code


def _opened(path: Path) -> Transcript:
    try:
        return Transcript(path)
    except FileExistsError:
        raise CallError(f"{path} already exists. Choose another file with `--transcript`.") from None
    except OSError as error:
        raise CallError(f"cannot write {path} ({error.strerror}). Choose another file with `--transcript`.") from None


def options_of(parsed: argparse.Namespace) -> dict[str, Any]:
    """The options of an answer that the user gave, as Ollama names them."""
    given = {"temperature": parsed.temperature, "seed": parsed.seed, "num_predict": parsed.max_tokens}
    return {name: value for name, value in given.items() if value is not None}


def _print_end(path: Path, code: int, why: str) -> None:
    print_line("", sys.stdout)
    if code == INTERRUPTED:
        print_line("Interrupted.", sys.stderr)
    elif why:
        complain(why)
    print_line(f"Transcript: {path}", sys.stderr if why else sys.stdout)


def _as_dict(turns: Iterable[Turn], path: Path, code: int, why: str) -> dict[str, Any]:
    said = [
        {
            "speaker": turn.speaker.id,
            "model": turn.speaker.server.endpoint.model,
            "text": turn.text.strip(),
            "thinking": turn.thinking.strip(),
            "done_reason": turn.done_reason,
        }
        for turn in turns
    ]
    ended = {FINE: "complete", FAILED: "failed", INTERRUPTED: "interrupted"}[code]
    return {"ended": ended, "why": why, "transcript": str(path), "turns": said}


def _asked(endpoint: Endpoint, timeout: float) -> Ollama:
    """The server for questions that need no model: with the usual timeout, or a shorter one from the user."""
    if timeout < ANSWER_SECONDS:
        return Ollama(endpoint, timeout=timeout, option=OPTION)
    return Ollama(endpoint)


def _label(endpoint: Endpoint, alike: bool) -> str:
    """A model's name in the conversation: its tag, with its server's name if both have the same tag."""
    return f"{endpoint.model} ({endpoint.id})" if alike else endpoint.model
