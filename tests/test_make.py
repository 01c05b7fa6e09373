"""The error of `make` on a machine where it cannot install."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("make") is None, reason="`make` is not on the PATH")
@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        (f"absent==1.0 --hash=sha256:{0:064}", "error: cannot reach the package index. Check the network, the proxy"),
        ("not a requirement", "ERROR: Invalid requirement"),
    ],
)
def test_make_plan_reports_an_unreachable_index_in_one_line(requirement: str, said: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name, text in {
        ".venv/bin/python": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
        "pyproject.toml": "",
        "requirements.txt": requirement,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / ".venv/bin/python").chmod(0o755)
    env = {**os.environ, "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1"}
    done = subprocess.run(["make", "plan"], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith(said)
    assert "Retry" not in done.stderr
