"""Where models answer, as `--url` names it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from tandem.terminal import CallError


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An Ollama server that answers for one model."""

    id: str
    """What people call it: the model's `id` in the stack file, or the NAME of `--url`."""
    url: str
    """Base address, without a slash at the end, e.g. `http://127.0.0.1:11434`."""
    model: str = ""
    """The Ollama tag; empty = whatever single model the server holds."""


class NotConnectedError(CallError):
    """The servers, the cluster, or the way to them is not there, or not named properly; says what to do."""

    def __init__(self, text: str, *, passing: bool = False) -> None:
        super().__init__(text)
        self.passing = passing
        """Whether it may be otherwise in a minute, with nobody doing anything."""


def named(urls: Sequence[str], models: Sequence[str] = ()) -> list[Endpoint]:
    """The endpoints that `NAME=URL` and `NAME=TAG` arguments mean; raises `NotConnectedError` for all mistakes."""
    addresses, mistakes = _pairs(urls, "--url", "NAME=URL", "a=http://127.0.0.1:11434")
    tags, more = _pairs(models, "--model", "NAME=TAG", "a=llama2:7b")
    mistakes += more
    for name, url in addresses.items():
        mistakes += [f"--url {name}={_shown(url)}: {why}" for why in wrong_with(url)]
    mistakes += [f"--model {name}=…: there is no --url {name}=…" for name in tags if name not in addresses]
    if mistakes:
        raise NotConnectedError("\n".join(mistakes))
    return [Endpoint(name, url.rstrip("/"), tags.get(name, "")) for name, url in addresses.items()]


def _pairs(arguments: Sequence[str], option: str, shape: str, example: str) -> tuple[dict[str, str], list[str]]:
    pairs: dict[str, str] = {}
    mistakes = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not (equals and name and value) or "/" in name:
            mistakes.append(f"{option} {_shown(argument)}: must be {shape}, e.g. {option} {example}")
        elif name in pairs:
            mistakes.append(f"{option} {name}=…: given twice. Every server needs a name of its own.")
        else:
            pairs[name] = value
    return pairs, mistakes


def wrong_with(url: str) -> Iterator[str]:
    """What is wrong with the address of a server."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        (host or "").encode("idna")  # as `socket` does it
    except ValueError as error:
        yield f"is no address ({error})"
        return
    if not url.isascii() or any(char.isspace() for char in url):
        yield "must be ASCII without spaces: write other letters of a host in punycode (xn--…)"
        return
    if parts.scheme not in ("http", "https") or not host:
        yield "must begin with http:// or https:// and a host, e.g. http://127.0.0.1:11434"
    elif parts.username or parts.password:
        yield "must hold no user or password: addresses are written into results"
    elif parts.query or parts.fragment:
        yield "must end with the path: no ? and no #"


def _shown(text: str) -> str:
    """The text without what may be a password."""
    before, at, after = text.rpartition("@")
    return f"{before.split('//')[0]}//…@{after}" if at else text
