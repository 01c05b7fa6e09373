"""Started by Pulumi as `python plugin`, with the address of the engine."""

import sys
from pathlib import Path

# Pulumi fetches the whole repository, but puts only this folder on the path.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from plugin.provider import serve  # noqa: E402

if __name__ == "__main__":
    serve()
