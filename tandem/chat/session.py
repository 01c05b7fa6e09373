"""`tandem run`: you and one model of a deployed stack, until you leave; or one answer."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sharing.models.served import ServedModel
from sharing.printable import counted
from stacks.stack_file.judge import Plan
from tandem.chat.conversation import options_of
from tandem.chat.prompt import history, read_messages
from tandem.chat.screen import Screen
from tandem.chat.talk import Speaker, Turn
from tandem.chat.waking import Waker
from tandem.deployed.connection import Connected, forward_for_clients, reached, trouble_of
from tandem.deployed.endpoints import Endpoint
from tandem.deployed.ollama import Ollama, OllamaError
from tandem.lookup import accepted, find_served_model
from tandem.terminal import FAILED, FINE, CallError, complain, open_console, print_json, print_line

SCHEMA_VERSION = 1
OPTION = "--timeout"
SECONDS_PER_MINUTE, SECONDS_PER_HOUR = 60, 3600
CENT = 0.01


@dataclass
class Session:
    """What a session used."""

    clock: Callable[[], float] = time.monotonic
    turns: list[Turn] = field(default_factory=list)
    tokens: int = 0
    token_seconds: float = 0.0
    """The server's time for these tokens."""

    def __post_init__(self) -> None:
        self._begun = self.clock()

    @property
    def seconds(self) -> float:
        """Since it began, with the time to wake the model."""
        return self.clock() - self._begun

    @property
    def tokens_per_s(self) -> float:
        """0 if the server reports no times."""
        return self.tokens / self.token_seconds if self.token_seconds else 0.0

    def usd(self, usd_per_hour: float) -> float:
        """Cost of the whole stack during the session."""
        return self.seconds / SECONDS_PER_HOUR * usd_per_hour


def run(parsed: argparse.Namespace) -> int:
    """Answers the prompt, or each message until the user leaves; returns the exit code."""
    plan = accepted(parsed.stack)
    served, prompt = _read_words(parsed, plan)
    _refuse_silent(plan, served, parsed.stack)
    question = _question(prompt)
    if parsed.json and question is None:
        raise CallError("--json answers one prompt. Write the prompt after the model.")
    session = Session()
    with reached(parsed) as connected, forward_for_clients(connected, served) as forward:
        endpoint = Endpoint(served.id, forward.url, served.model.name)
        with Ollama(endpoint, timeout=parsed.timeout, option=OPTION, trouble=trouble_of(forward)) as server:
            waker = Waker(parsed, connected, served, forward.url)
            waited = waker.wake()
            talk = _Talk(parsed, Speaker(server, "").start(parsed.system), waker, session)
            if question is not None:
                code = talk.answer_once(question)
                if parsed.json:
                    print_json(_as_dict(connected, served, session, waited))
                    return code
            else:
                _greet(connected, served, waited)
                code = talk.answer_all()
    _print_end(plan, session, waker)
    return code


@dataclass
class _Talk:
    """The conversation."""

    parsed: argparse.Namespace
    speaker: Speaker
    waker: Waker
    session: Session

    def __post_init__(self) -> None:
        context = "truncated: --max-tokens" if self.parsed.max_tokens else "truncated: its context is full"
        self._screen = None if self.parsed.json else Screen(open_console(), named=False, cut=context)

    def answer_once(self, question: str) -> int:
        """Raises `OllamaError` if the model fails."""
        self._answer(question)
        return FINE

    def answer_all(self) -> int:
        """Answers until the user leaves. A failed answer does not end the conversation."""
        code = FINE
        with history():
            for text in read_messages(self._forget):
                code = FINE
                try:
                    # Its node may be lost, and it may sleep again.
                    self.waker.wake()
                    self._answer(text)
                    print_line("", sys.stdout)
                except KeyboardInterrupt:
                    print_line("", sys.stderr)
                except CallError as error:
                    complain(str(error))
                    code = FAILED
        return code

    def _forget(self) -> None:
        del self.speaker.messages[:]
        self.speaker.start(self.parsed.system)

    def _answer(self, text: str) -> None:
        """Shows the answer. One that is stopped counts as far as it came; without any text, nobody said anything."""
        turn = Turn(len(self.session.turns) + 1, self.speaker)
        before = len(self.speaker.messages)
        self.speaker.hears(text)
        try:
            for piece in self.speaker.answers(options_of(self.parsed)):
                turn.text += piece.text
                turn.thinking += piece.thinking
                turn.done_reason = piece.done_reason
                self.session.tokens += piece.tokens
                self.session.token_seconds += piece.seconds
                if self._screen:
                    self._screen.add(turn, piece)
            self.session.turns.append(turn)
        except (KeyboardInterrupt, OllamaError):
            if turn.text.strip():
                self.speaker.says(turn.text)
            else:
                del self.speaker.messages[before:]
            raise
        finally:
            if self._screen:
                self._screen.end_line()


def _read_words(parsed: argparse.Namespace, plan: Plan) -> tuple[ServedModel, str | None]:
    """The model and the prompt. A word with a space is no tag, so as the only one it is the prompt."""
    words = parsed.model
    if words is not None and parsed.prompt is None and any(char.isspace() for char in words):
        return find_served_model(plan, None), words
    return find_served_model(plan, words), parsed.prompt


def _refuse_silent(plan: Plan, served: ServedModel, stack: str) -> None:
    """Raises `CallError` for a model that cannot answer."""
    if served.model.encoder:
        raise CallError(
            f"{served.model.name} only embeds text, so it cannot answer. `tandem env {stack} {served.id}` prints its "
            "address; send text to its /api/embed."
        )
    pool = next(pool for pool in plan.config.pools if pool.name == served.pool)
    if not pool.desired:
        raise CallError(
            f"{served.model.name} does not run: its pool `{pool.name}` has `desired: 0`. Write `desired: 1` in the "
            f"stack file, and run `pulumi up --stack {plan.stack}`."
        )


def _question(prompt: str | None) -> str | None:
    """The prompt to answer once, or None for a conversation. As in `ollama run`, piped text comes before the prompt."""
    if sys.stdin.isatty():
        return prompt
    piped = sys.stdin.read().strip()
    question = "\n\n".join(filter(None, (piped, prompt)))
    if not question:
        raise CallError("the prompt is missing. Write it after the model, or pipe text into the command.")
    return question


def _greet(connected: Connected, served: ServedModel, waited: float) -> None:
    plan = connected.plan
    if waited:
        print_line(f"Ready after {_duration(waited)}.", sys.stderr)
    print_line(f"{served.model.name} of stack {plan.stack}. Write /? for help, /bye to leave.", sys.stderr)


def _print_end(plan: Plan, session: Session, waker: Waker) -> None:
    """What the session cost, and how the cost ends."""
    for line in _cost_lines(plan, session):
        print_line(line, sys.stderr)
    if waker.again:
        print_line(waker.again, sys.stderr)


def _cost_lines(plan: Plan, session: Session) -> Iterator[str]:
    usd_per_hour = _usd_per_hour(plan)
    usd = session.usd(usd_per_hour)
    amount = f"about ${usd:.2f}" if usd >= CENT else f"less than ${CENT:.2f}"
    yield (
        f"{_duration(session.seconds)} of stack {plan.stack} at ${usd_per_hour:.3f} per hour: {amount}. The stack "
        "costs this while it runs, used or not."
    )
    if session.turns:
        speed = f", {session.tokens_per_s:.1f} tokens/s" if session.tokens_per_s else ""
        yield f"{counted(len(session.turns), 'answer')}, {counted(session.tokens, 'token')}{speed}."


def _usd_per_hour(plan: Plan) -> float:
    assert plan.verdict.cost is not None, "an accepted stack has a bill"
    return plan.verdict.cost.usd_per_hour


def _duration(seconds: float) -> str:
    """E.g. `4 s`, `14 min` or `2 h 5 min`."""
    if seconds < 2 * SECONDS_PER_MINUTE:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / SECONDS_PER_MINUTE), SECONDS_PER_MINUTE)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _as_dict(connected: Connected, served: ServedModel, session: Session, waited: float) -> dict[str, Any]:
    plan, [turn] = connected.plan, session.turns
    usd_per_hour = _usd_per_hour(plan)
    return {
        "schema_version": SCHEMA_VERSION,
        "stack": plan.stack,
        "id": served.id,
        "model": served.model.name,
        "text": turn.text.strip(),
        "thinking": turn.thinking.strip(),
        "done_reason": turn.done_reason,
        "tokens": session.tokens,
        "tokens_per_s": round(session.tokens_per_s, 1) or None,
        "waited_s": round(waited, 1),
        "seconds": round(session.seconds, 1),
        "usd_per_hour": round(usd_per_hour, 4),
        "usd": round(session.usd(usd_per_hour), 6),
    }
