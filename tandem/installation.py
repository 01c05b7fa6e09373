"""Parts that not everybody installs: which command needs which, and what to say where it is missing."""

from collections.abc import Iterable
from pathlib import Path

DISTRIBUTION = "tandem-gpu"
"""Name of our wheel, which is not published. On the package index, `tandem` is another author's."""
CHECKOUT = Path(__file__).parent.parent

EXTRAS = {
    "aws": ("boto3", "botocore"),
    "cluster": ("kr8s", "httpx", "httpx_ws", "anyio"),
    "ollama": ("httpx",),
    "gguf": ("httpx",),
}
"""The packages that a module of ours may miss, by the extra of `pyproject.toml` that brings them."""
NEEDED = {
    "doctor": ("aws", "cluster"),
    # All that need an account name the same extras as the documents: one line to install once.
    "leftovers": ("aws", "cluster"),
    "park": ("aws", "cluster"),
    "wake": ("aws", "cluster"),
    "quota": ("aws", "cluster"),
    "prices": ("aws", "cluster"),
    "verify": ("cluster",),
    "watch": ("cluster",),
    # It wakes a parked stack, too.
    "run": ("ollama", "cluster", "aws"),
    "env": ("ollama", "cluster"),
    "open": ("cluster",),
    "metrics": ("ollama", "cluster"),
    "chat": ("ollama", "cluster"),
    "bench": ("ollama", "cluster"),
    "models inspect": ("gguf",),
}
"""The extras of a command, what it needs in every call first."""


def version() -> str:
    """The distribution's version. A checkout's is in its project file: installed metadata are of another day."""
    if is_checkout():
        import tomllib

        return str(tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])
    from importlib import metadata

    return metadata.version(DISTRIBUTION)


def missing(error: ModuleNotFoundError, command: str) -> str:
    """Says what `command` needs, and how to install its extras; raises `error` again where none has that package."""
    package = (error.name or "").partition(".")[0]
    extras = NEEDED.get(command, ())
    for extra in extras:
        if package in EXTRAS[extra]:
            found = "boto3" if package == "botocore" else package
            return f"`tandem {command}` needs {found}. Run `{install_command(extras)}`{_where()}."
    raise error


def install_command(extras: Iterable[str], checkout: Path = CHECKOUT) -> str:
    """The command that installs `extras`. A checkout stays what is imported: without `-e` it would become a copy."""
    names = ",".join(extras)
    if is_checkout(checkout):
        return f"pip install -e '.[{names}]'"
    # Never by name: tandem-gpu is not on the package index, where anybody could register it.
    return f"pip install '.[{names}]'"


def is_checkout(folder: Path = CHECKOUT) -> bool:
    """Whether `tandem` was imported from a checkout, not from an installed wheel."""
    return (folder / "pyproject.toml").is_file()


def _where() -> str:
    return " in the checkout" if is_checkout() else " in a checkout of tandem"
