"""Answers Pulumi's language host in place of pip, before every command: `--version` and `list`.

Pip needs a CPU second for both, which is a quarter of an `up`. The host only looks for packages of Pulumi.
"""

import json
import sys
import sysconfig
from pathlib import Path

if sys.argv[1:] == ["--version"]:
    print("pip 25.0")
else:
    packages = Path(sysconfig.get_path("purelib")).glob("pulumi*.dist-info")
    parts = [package.name.removesuffix(".dist-info").partition("-") for package in packages]
    print(json.dumps([{"name": name, "version": version} for name, _, version in parts]))
