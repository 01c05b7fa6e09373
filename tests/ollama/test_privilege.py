"""The real server and `model_start.sh` as the user that the pod gives them, on directories as kubelet makes them.

Sources of owners and modes: kubernetes v1.36 pkg/volume/emptydir/empty_dir.go (0777), pkg/volume/host_path/host_path.go
(`DirectoryOrCreate`: 0755), both root's; mke2fs makes the root of a file system root's with 0755, beside `lost+found`.
"""

import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from components.containers import MODEL_USER, NOBODY, UNPRIVILEGED
from tests.ollama.test_model_start import Start, on_a_gpu

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not on PATH"),
]
DIRECTORIES = {"emptyDir": 0o777, "node": 0o755, "volume": 0o755}


def as_user(user: int) -> list[str]:
    """The container's user, without capabilities, and without a way to get any: as its securityContext says."""
    assert UNPRIVILEGED == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    dropped = ["--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs"]
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *dropped]


def models_directory(folder: Path, kind: str) -> Path:
    """A directory as the pod finds it."""
    made = folder / kind
    made.mkdir()
    made.chmod(DIRECTORIES[kind])
    if kind == "volume":
        (made / "lost+found").mkdir(mode=0o700)
    return made


def run_once(folder: Path, directory: Path, user: int) -> tuple[Start, list[str]]:
    """One life of a server on this directory: its start, and the files that it leaves there."""
    folder.mkdir()
    folder.chmod(0o777)
    with on_a_gpu(folder, "full", 14900, directory, as_user(user)) as server:
        return server.start(), sorted(str(one.relative_to(directory)) for one in directory.rglob("*") if one.is_file())


@pytest.mark.parametrize("kind", DIRECTORIES)
def test_a_model_starts_without_capabilities_and_again_after_a_switch_of_mode(tmp_path: Path, kind: str) -> None:
    directory = models_directory(tmp_path, kind)
    first, files = run_once(tmp_path / "timeslice", directory, MODEL_USER)
    assert (first.exit_code, first.message) == (0, "")
    assert any(one.startswith("blobs/") for one in files)
    # Another mode is another pod: the same user finds the files, writes the tag once more, and adds nothing.
    second, again = run_once(tmp_path / "mps", directory, MODEL_USER)
    assert (second.exit_code, second.message) == (0, "")
    assert again == files


def test_files_that_root_wrote_with_all_its_capabilities_stay_writable(tmp_path: Path) -> None:
    directory = models_directory(tmp_path, "node")
    folder = tmp_path / "before"
    folder.mkdir()
    with on_a_gpu(folder, "full", 14900, directory) as earlier:
        assert earlier.start().exit_code == 0
    now, _ = run_once(tmp_path / "now", directory, MODEL_USER)
    assert (now.exit_code, now.message) == (0, "")


def test_another_user_could_not_write_into_a_directory_that_kubelet_makes_on_the_node() -> None:
    # Not in pytest's own folder, which is closed to other users.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        directory = models_directory(folder, "node")
        with pytest.raises(AssertionError, match="could not connect"):
            run_once(folder / "other", directory, NOBODY)
        assert re.search(rf"{directory}\S*: permission denied", (folder / "other" / "server.log").read_text())
