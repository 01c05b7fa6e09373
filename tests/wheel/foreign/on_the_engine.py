"""Deploys and destroys the program beside it in the emulated cloud."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tandem.emulator.engine import serving
from tandem.emulator.world import World

HERE = Path(__file__).resolve().parent
world = World(HERE / "world.sqlite")


def pulumi(*arguments: str) -> None:
    subprocess.run(["pulumi", *arguments, "--stack", "test", "--non-interactive"], cwd=HERE, env=env, check=True)


with serving(world) as providers:
    env = {
        **os.environ,
        "PULUMI_BACKEND_URL": HERE.as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "test",
        "PULUMI_DEBUG_PROVIDERS": providers,
        "PULUMI_HOME": str(HERE / "home"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    settings = f"name: foreign\nruntime: {{name: python, options: {{toolchain: pip, virtualenv: {sys.prefix}}}}}\n"
    (HERE / "Pulumi.yaml").write_text(settings, encoding="utf-8")
    pulumi("stack", "init")
    pulumi("config", "set", "aws:region", "us-east-1")
    pulumi("up", "--yes", "--skip-preview")
    entities = bool(world.entities())
    pulumi("destroy", "--yes", "--skip-preview")
    print(json.dumps({"things": entities, "left": [entity.type for entity in world.entities()]}))
