"""The record of a deletion: a line of JSON before each deleting call, and one for each outcome."""

import datetime
import json
import os
import re
from pathlib import Path
from typing import Any

from sharing.files import append, keep_names
from tandem.aws.session import AccountError


def home() -> Path:
    """The folder of the records: `$XDG_STATE_HOME/tandem/leftovers`, or below `~/.local/state`."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "tandem" / "leftovers"


class Record:
    """A new file that only grows. Each line is on the disk before `write` returns, so that no crash can lose it."""

    def __init__(self, stack: str, region: str, now: datetime.datetime) -> None:
        name = re.sub(r"[^\w.-]", "_", f"{stack}-{region}")
        # With microseconds: two runs within one second have a record each.
        stamp = now.strftime("%Y%m%dT%H%M%S.%fZ")
        self.path = home() / f"{name}-{stamp}-{os.getpid()}.jsonl"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
            keep_names(self.path.parent)
        except OSError as error:
            raise self._failed(error) from None

    def write(self, **entry: Any) -> None:
        """Adds a line; raises `AccountError` if it does not reach the disk."""
        stamped = {"at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), **entry}
        try:
            append(self._file, json.dumps(stamped) + "\n")
        except OSError as error:
            raise self._failed(error) from None

    def _failed(self, error: OSError) -> AccountError:
        return AccountError(
            f"the record {self.path} cannot be written ({error.strerror}), so nothing more is deleted. "
            "Free disk space, or set XDG_STATE_HOME to another directory."
        )
