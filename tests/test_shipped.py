"""A user's own stack files, beside the shipped ones, change no test: neither valid files nor broken ones."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shipped import FILES, ROOT

STRANGE = {
    "large": FILES[0].read_text(encoding="utf-8").replace("llama2:7b", "llama2:13b"),
    "prod": FILES[1].read_text(encoding="utf-8"),
    "refused": "config:\n  aws:region: us-east-1\n  tandem:models: []\n",
    "broken": "config: [",
    "empty": "",
    "theirs": "config:\n  other:key: value\n",
}
READERS = ("tests/stacks/test_positions.py", "tests/stacks/test_write.py")
"""A quick room whose tests read stack files."""
PARTS = ("components", "docs", "sandbox", "sharing", "stacks", "tandem", "tests", "__main__.py", "pyproject.toml")


@pytest.mark.slow
def test_a_users_stack_files_change_no_test(tmp_path: Path) -> None:
    for name in (*PARTS, ".gitignore", "Pulumi.yaml", *(file.name for file in FILES)):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    clone = collected(tmp_path)
    assert any("timeslice" in test for test in clone)
    for name, text in STRANGE.items():
        (tmp_path / f"Pulumi.{name}.yaml").write_text(text, encoding="utf-8")
    assert collected(tmp_path) == clone
    # The names alone do not show a test that reads every file in its body.
    pytest_in(tmp_path, *READERS)


def collected(folder: Path) -> list[str]:
    """The tests of the folders that read stack files."""
    rooms = ["tests/stacks", "tests/program", "tests/components/test_stock_mocks.py", "tests/tandem/plan"]
    return [line for line in pytest_in(folder, "--collect-only", *rooms).splitlines() if "::" in line]


def pytest_in(folder: Path, *arguments: str) -> str:
    """What pytest writes. Fails if a test does, or if there is none."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout
