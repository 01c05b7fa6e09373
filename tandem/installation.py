"""Packages that not everybody installs, and what to say where one is missing."""

from pathlib import Path

DISTRIBUTION = "tandem-gpu"
"""Name of our wheel, which is not published. On the package index, `tandem` is another author's."""
CHECKOUT = Path(__file__).parent.parent

OPTIONAL = ("anyio", "boto3", "botocore", "httpx", "httpx_ws", "kr8s")
"""The packages that a module of ours may miss: those of the extras of `pyproject.toml`."""


def version() -> str:
    """The distribution's version. A checkout's is in its project file: installed metadata are of another day."""
    if is_checkout():
        import tomllib

        return str(tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])
    from importlib import metadata

    return metadata.version(DISTRIBUTION)


def missing(error: ModuleNotFoundError, command: str) -> str:
    """Says what `command` needs, and how to install all extras; raises `error` again where none has that package."""
    package = (error.name or "").partition(".")[0]
    if package not in OPTIONAL:
        raise error
    where = " in the checkout" if is_checkout() else " in a checkout of tandem"
    return f"`tandem {command}` needs {package}. Run `{install_command()}`{where}."


def install_command(checkout: Path = CHECKOUT) -> str:
    """The command that the documents have, too. A checkout stays what is imported: without `-e` it would become a copy.

    Never by name: tandem-gpu is not on the package index, where anybody could register it.
    """
    return f"pip install {'-e ' * is_checkout(checkout)}'.[all]'"


def is_checkout(folder: Path = CHECKOUT) -> bool:
    """Whether `tandem` was imported from a checkout, not from an installed wheel."""
    return (folder / "pyproject.toml").is_file()
