"""Parts that not everybody installs: which command needs which, and what to say where it is missing."""

EXTRAS = {
    "aws": ("boto3", "botocore"),
    "cluster": ("kr8s", "httpx", "httpx_ws", "httpcore", "anyio"),
    "ollama": ("httpcore",),
    "gguf": ("gguf", "numpy", "httpx", "httpcore"),
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
    "models": ("gguf",),
    "report": ("plots",),
}
"""The extras of a command, what it needs in every call first."""


def missing(error: ModuleNotFoundError, command: str) -> str:
    """Says what `command` needs, and how to install its extras; raises `error` again where none has that package."""
    package = (error.name or "").partition(".")[0]
    extras = NEEDED.get(command, ())
    for extra in extras:
        if package in EXTRAS[extra]:
            found = "boto3" if package == "botocore" else package
            # The index has a package of another author by the name of ours, so this installs from the checkout.
            return (
                f"`tandem {command}` needs {found}. Run `.venv/bin/python -m pip install --no-build-isolation "
                f"-e '.[{','.join(extras)}]'` in the checkout."
            )
    raise error
