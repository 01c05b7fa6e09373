"""Answers Pulumi's language host in place of pip, before every command: `--version` and `list`.

The answers are the same. Pip needs a CPU second for both, which is a fifth of an `up`.
"""

import json
import sys
from importlib.metadata import distributions, version

if sys.argv[1:] == ["--version"]:
    print(f"pip {version('pip')}")
else:
    print(json.dumps([{"name": one.metadata["Name"], "version": one.version} for one in distributions()]))
