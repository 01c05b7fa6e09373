"""Writes files atomically, durably, and with one writer at a time."""

import fcntl
import os
import stat
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO


class ChangedError(OSError):
    """Another process changed the file in the meantime, so it was not replaced."""


def user_cache(kind: str) -> Path:
    """The folder for what can be read again, e.g. `prices`: a file for each, of which none is needed.

    Source: XDG Base Directory Specification 0.8, `XDG_CACHE_HOME`.
    """
    return base_folder("XDG_CACHE_HOME", ".cache") / "tandem" / kind


def base_folder(variable: str, default: str) -> Path:
    """The folder that `variable` names. A relative path is invalid, and ignored (the same specification)."""
    given = Path(os.environ.get(variable, ""))
    return given if given.is_absolute() else Path.home() / default


def lock(path: Path, *, wait: bool = False, mode: int = 0o666) -> BinaryIO:
    """Opens and locks the file at `path`, creating it if needed; raises `BlockingIOError` if another process has it.

    Close the file to unlock it. The kernel drops a flock with its process, however that ends (flock(2)), so no lock is
    ever stale. The holder may delete or rename the file.
    """
    while True:
        # Not through a link: in a shared folder it may lead to any of your files.
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, mode), "r+b")
        with ExitStack() as unused:
            unused.callback(file.close)
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            # Otherwise the previous holder deleted or renamed the file after it was opened here.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.lstat()):
                    unused.pop_all()
                    return file


def write_whole(path: Path, content: str, *, mode: int = 0o666, replaces: bytes | None = None) -> None:
    """Replaces the file at `path` atomically: after a crash it is either the old or the new one. Raises `OSError`.

    A new file has `mode` less the umask; an old one keeps its mode. With `replaces`, raises `ChangedError` if the
    file has different content by now. A link is replaced, not followed: to keep it, resolve it first.
    """
    part = path.with_name(f".{path.name}.part")
    with lock(part, wait=True, mode=mode) as file:
        try:
            file.truncate(0)  # left by a killed process
            with suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            append(file.fileno(), content)
            if replaces is not None and path.read_bytes() != replaces:
                raise ChangedError(f"{path} was changed by another process")
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def append(file: int, content: str) -> None:
    """Adds text to a file that is open for appending; on the disk when this returns. Raises `OSError`."""
    left = content.encode()
    # A full disk may accept part of the text; some file systems report this only at the fsync.
    while left:
        left = left[os.write(file, left) :]
    os.fsync(file)


def keep_names(folder: Path) -> None:
    """Puts the names of the folder's new files on the disk: syncing a file does not (fsync(2)). Raises `OSError`."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
