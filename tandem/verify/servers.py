"""Tests a model's Ollama server: whether it has the model, loads it, answers, and keeps it on the GPU."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tandem.deployed.ollama import Memory, Ollama, OllamaError, same_tag


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one step."""

    fine: bool
    text: str


@dataclass(slots=True)
class Server:
    """A server's outcomes, step by step; no step follows a failed one."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    memory: Memory | None = None


def examine(servers: Mapping[str, Ollama]) -> dict[str, Server]:
    """Tests all servers of a stack, by id.

    Loads all before it judges any: a model may fit on the GPU only until its neighbour is loaded.
    """
    examined = {id: Server() for id in servers}
    steps: tuple[tuple[str, Callable[[Ollama], Outcome]], ...] = (
        ("version", lambda server: Outcome(True, f"Ollama {server.version()}")),
        ("held", _held),
        ("loaded", lambda server: Outcome(True, f"in {server.load():.1f} s")),
        ("answered", _answered),
    )
    for step, taken in steps:
        for id, server in servers.items():
            if all(outcome.fine for outcome in examined[id].outcomes.values()):
                examined[id].outcomes[step] = _outcome(taken, server)
    for id, server in servers.items():
        if "loaded" in examined[id].outcomes:
            try:
                examined[id].memory = server.memory()
            except OllamaError as error:
                examined[id].outcomes["answered"] = Outcome(False, error.what)
    return examined


def _outcome(taken: Callable[[Ollama], Outcome], server: Ollama) -> Outcome:
    try:
        return taken(server)
    except OllamaError as error:
        return Outcome(False, error.what)


def _held(server: Ollama) -> Outcome:
    tag, tags = server.endpoint.model, [model.name for model in server.models()]
    if any(same_tag(held, tag) for held in tags):
        return Outcome(True, tag)
    return Outcome(False, f"it has {', '.join(tags) or 'no model'}")


def _answered(server: Ollama) -> Outcome:
    tokens, speed = server.probe()
    if not tokens:
        return Outcome(False, "an empty answer")
    return Outcome(True, f"{tokens} tokens, {speed:.1f} tokens/s" if speed else f"a vector of {tokens} numbers")
