"""Parts that not everybody installs: which command needs which, and what to say where it is missing."""

EXTRAS = {
    "aws": ("boto3", "botocore"),
    "cluster": ("kr8s", "httpx", "httpx_ws", "httpcore", "anyio"),
    "ollama": ("httpx", "httpcore"),
    "plots": ("matplotlib",),
}
"""The packages that a module of ours may miss, by the extra of `pyproject.toml` that brings them."""
NEEDED = {
    "doctor": ("aws", "cluster"),
    "leftovers": ("aws",),
    "quota": ("aws",),
    "prices": ("aws",),
    "verify": ("cluster",),
    "watch": ("cluster",),
    "chat": ("ollama", "cluster"),
    "bench": ("ollama", "cluster"),
    "report": ("plots",),
}
"""The extras of a command, what it needs in every call first."""


def missing(error: ModuleNotFoundError, command: str) -> str:
    """Says which extra `command` needs; raises `error` again where none of its extras has that package."""
    package = (error.name or "").partition(".")[0]
    for extra in NEEDED.get(command, ()):
        if package in EXTRAS[extra]:
            return f"`tandem {command}` needs {package}: pip install 'tandem[{extra}]'"
    raise error
