"""The wheel, and environments outside the checkout in which it is installed."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and a folder that is not the checkout."""

    prefix: Path
    folder: Path

    def run(self, program: str, *arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Runs one of its programs as a user does, without any file of the checkout."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
        env = {**kept, "PATH": f"{self.prefix / 'bin'}:{os.environ['PATH']}", "PYTHONWARNINGS": "ignore"}
        return subprocess.run(
            [self.prefix / "bin" / program, *arguments], cwd=cwd or self.folder, env=env, capture_output=True, text=True
        )


def build(source: Path, target: Path) -> Path:
    """Builds the wheel of `source` with pip and the installed setuptools."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w"]
    subprocess.run([*command, target, source], check=True)
    [wheel] = target.glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of every file that git tracks or would track, so that a build leaves no files in the checkout."""
    target = tmp_path_factory.mktemp("sources")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    return target


@pytest.fixture(scope="session")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(sources, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def install(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Environment]:
    """Installs the wheel with extras into an environment of its own, everything else from the package index."""

    def new(extras: str) -> Environment:
        home = tmp_path_factory.mktemp("installed")
        prefix, folder = home / "venv", home / "project"
        folder.mkdir()
        subprocess.run([sys.executable, "-m", "venv", prefix], check=True)
        # pip and not uv: pip is configured with the package index of this machine.
        pip = [str(prefix / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, "-c", str(_constraints(home)), f"{wheel}{extras}"], check=True)
        shutil.copy(ROOT / "Pulumi.yaml", folder)
        shutil.copy(ROOT / "Pulumi.dev.yaml", folder)
        return Environment(prefix, folder)

    return new


def _constraints(folder: Path) -> Path:
    """The versions of the lock. With its hashes, pip would also require a hash of our wheel."""
    locked = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("requirements.txt", "requirements-dev.txt"))
    file = folder / "constraints.txt"
    file.write_text("\n".join(re.findall(r"^[\w.-]+==[^\\\n]+", locked, flags=re.MULTILINE)), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def base(install: Callable[[str], Environment]) -> Environment:
    """The environment that `pip install tandem-gpu` makes."""
    return install("")


@pytest.fixture(scope="session")
def complete(install: Callable[[str], Environment]) -> Environment:
    """The environment with every extra for users."""
    return install("[all]")
