"""Parts that not everybody installs: which command needs which, and what to say where it is missing."""

import sys

EXTRAS = {"cluster": ("kr8s", "httpx_ws", "anyio"), "ollama": ("httpx", "httpcore"), "plots": ("matplotlib",)}
"""The packages that a module of ours may miss, by the extra of `pyproject.toml` that brings them."""
USAGE = 2


def missing(error: ModuleNotFoundError, command: str) -> int:
    """Says which extra `command` needs and returns the exit code; raises `error` again where it is another package."""
    package = (error.name or "").partition(".")[0]
    for extra, packages in EXTRAS.items():
        if package in packages:
            print(f"tandem: `{command}` needs {package}: pip install 'tandem[{extra}]'", file=sys.stderr)
            return USAGE
    raise error
