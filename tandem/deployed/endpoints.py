"""Addresses of models, from `--url`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from sharing.printable import address
from tandem.terminal import CallError


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An Ollama server that answers for one model."""

    id: str
    """Its name: the model's `id` in the stack file, or the NAME of `--url`."""
    url: str
    """Base address, without a slash at the end, e.g. `http://127.0.0.1:11434`."""
    model: str = ""
    """The Ollama tag; empty = the server's only model."""


class NotConnectedError(CallError):
    """The servers or the cluster cannot be reached, or are named wrongly; the text contains the fix."""

    def __init__(self, text: str, *, passing: bool = False) -> None:
        super().__init__(text)
        self.passing = passing
        """Whether it may end within a minute without any action."""


def named(urls: Sequence[str], models: Sequence[str] = ()) -> list[Endpoint]:
    """The endpoints in `NAME=URL` and `NAME=TAG` arguments; raises `NotConnectedError` with all errors."""
    addresses, errors = _pairs(urls, "--url", "NAME=URL", "a=http://127.0.0.1:11434")
    tags, more = _pairs(models, "--model", "NAME=TAG", "a=llama2:7b")
    errors += more
    for name, url in addresses.items():
        errors += [f"--url {name}={address(url)}: {why}" for why in wrong_with(url)]
    errors += [f"--model {name}=…: has no --url {name}=…. Pass both." for name in tags if name not in addresses]
    if errors:
        raise NotConnectedError("\n".join(errors))
    return [Endpoint(name, url.rstrip("/"), tags.get(name, "")) for name, url in addresses.items()]


def _pairs(arguments: Sequence[str], option: str, shape: str, example: str) -> tuple[dict[str, str], list[str]]:
    pairs: dict[str, str] = {}
    errors = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not (equals and name and value) or "/" in name:
            errors.append(f"{option} {address(argument)}: must be {shape}, for example {option} {example}")
        elif name in pairs:
            errors.append(f"{option} {name}=…: appears twice. Give each server its own name.")
        else:
            pairs[name] = value
    return pairs, errors


def wrong_with(url: str) -> Iterator[str]:
    """Errors in the address of a server."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        (host or "").encode("idna")  # as `socket` does it
    except ValueError:
        # Its text repeats a part of a password with `/`, `?` or `#` in it.
        yield "is not an address. Correct its host or port."
        return
    if not url.isascii() or any(char.isspace() for char in url):
        yield "must be ASCII without spaces; write a host with other letters in punycode (xn--…)"
        return
    if parts.scheme not in ("http", "https") or not host:
        yield "must start with http:// or https:// and a host, e.g. http://127.0.0.1:11434"
    elif "@" in url:  # also behind the host, where a password with `/` in it puts it
        yield "must not contain a user or password, because results contain addresses"
    elif parts.query or parts.fragment:
        yield "must end with the path, without ? and #"
