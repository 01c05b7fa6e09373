"""Files are written completely, survive a crash, and are locked against other writers."""

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sharing.files import ChangedError, append, keep_names, lock, user_cache, write_whole
from tandem.lookup import state_folder


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("call", ["write", "fsync", "fchmod"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "it"
    path.write_text("old")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, full_disk)
        with pytest.raises(OSError, match="No space left"):
            write_whole(path, "new")
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["it"])


def test_a_file_is_on_the_disk_before_it_replaces_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "it", list[str]()
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", lambda file: seen.append(path.read_text() + os.pread(file, 9, 0).decode()))
    write_whole(path, "néw")
    assert (seen, path.read_bytes(), os.listdir(tmp_path)) == (["oldnéw"], "néw".encode(), ["it"])


@pytest.mark.parametrize(
    ("mode", "umask", "made"), [({}, 0o022, 0o644), ({}, 0o007, 0o660), ({"mode": 0o600}, 0, 0o600)]
)
def test_a_new_file_gets_the_mode_minus_the_umask_and_an_old_one_keeps_its_own(
    mode: dict[str, int], umask: int, made: int, tmp_path: Path
) -> None:
    path, beside, earlier = tmp_path / "it", tmp_path / "lock", os.umask(umask)
    try:
        write_whole(path, "first", **mode)  # type: ignore[arg-type]
        lock(beside, **mode).close()  # type: ignore[arg-type]
        assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(beside.stat().st_mode) == made
        path.chmod(0o640)
        write_whole(path, "second", **mode)  # type: ignore[arg-type]
    finally:
        os.umask(earlier)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("second", 0o640)


def test_the_remains_of_a_killed_writer_are_overwritten(tmp_path: Path) -> None:
    (tmp_path / ".it.part").write_text("longer than the next one")
    write_whole(tmp_path / "it", "new")
    assert ((tmp_path / "it").read_text(), os.listdir(tmp_path)) == ("new", ["it"])


def test_a_file_that_another_process_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_text("theirs")
    with pytest.raises(ChangedError, match="it was changed by another process"):
        write_whole(path, "new", replaces=b"old")
    assert (path.read_text(), os.listdir(tmp_path)) == ("theirs", ["it"])
    write_whole(path, "new", replaces=b"theirs")
    assert path.read_text() == "new"


def test_a_failed_write_is_reported_also_without_the_partial_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: object) -> None:
        (tmp_path / ".it.part").unlink()
        full_disk()

    monkeypatch.setattr(os, "fsync", lose)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "it", "new")


def test_nothing_is_written_through_a_link_in_place_of_the_partial_file(tmp_path: Path) -> None:
    (tmp_path / "private").write_text("mine")
    (tmp_path / ".it.part").symlink_to(tmp_path / "private")
    with pytest.raises(OSError, match="symbolic links"):
        write_whole(tmp_path / "it", "new")
    assert (tmp_path / "private").read_text() == "mine"


def test_the_names_in_a_folder_reach_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[os.stat_result] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file)))
    before = os.listdir("/dev/fd")
    keep_names(tmp_path)
    assert os.listdir("/dev/fd") == before
    assert [os.path.samestat(one, tmp_path.stat()) for one in synced] == [True]


def test_a_locked_file_is_refused_until_its_holder_ends(tmp_path: Path) -> None:
    with lock(tmp_path / "lock"):
        before = os.listdir("/dev/fd")
        with pytest.raises(BlockingIOError) as refused:
            lock(tmp_path / "lock")
        assert os.listdir("/dev/fd") == before, refused
    lock(tmp_path / "lock").close()
    program = (
        "import os, sys; from pathlib import Path; from sharing.files import lock\n"
        "held = lock(Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "lock")], cwd=Path(__file__).parents[2])
    assert done.returncode == -signal.SIGKILL
    lock(tmp_path / "lock").close()


def test_a_second_writer_waits_for_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, real = lock(tmp_path / ".it.part"), fcntl.flock

    def flock(file: int, how: int) -> None:
        if not how & fcntl.LOCK_NB:
            first.close()  # as the first writer does while the second one waits
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    write_whole(tmp_path / "it", "new")
    assert (tmp_path / "it").read_text() == "new"


@pytest.mark.parametrize("meanwhile", ["deleted", "replaced"])
def test_a_lock_file_that_its_holder_deletes_while_we_open_it_is_not_used(
    meanwhile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real, often = tmp_path / "lock", fcntl.flock, 0

    def flock(file: int, how: int) -> None:
        nonlocal often
        often += 1
        if often == 1:
            path.unlink()  # as the previous holder does when it ends
            if meanwhile == "replaced":
                path.touch()
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with lock(path):
        assert often == 2
        with pytest.raises(BlockingIOError):
            lock(path)


def test_a_line_is_written_completely_even_in_several_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    file = os.open(tmp_path / "it", os.O_WRONLY | os.O_CREAT)
    monkeypatch.setattr(os, "write", lambda to, what: real(to, what[:3]))
    append(file, "one line\n")
    os.close(file)
    assert (tmp_path / "it").read_text() == "one line\n"


@pytest.mark.parametrize("given", ["relative", ""])
def test_a_relative_cache_is_ignored(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """XDG Base Directory Specification 0.8: "All paths set in these environment variables must be absolute"."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    monkeypatch.setenv("XDG_STATE_HOME", given)
    assert user_cache("models") == tmp_path / ".cache" / "tandem" / "models"
    assert state_folder() == tmp_path / ".local" / "state" / "tandem"
