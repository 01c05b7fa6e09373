"""The emulated account of `tests/tandem/aws`."""

from tests.tandem.aws.conftest import (
    account,
    answers,
    cleaning,
    creation,
    delays,
    emulated,
    folder,
    records,
    requests,
    run,
    tandem,
)

__all__ = [
    "account",
    "answers",
    "cleaning",
    "creation",
    "delays",
    "emulated",
    "folder",
    "records",
    "requests",
    "run",
    "tandem",
]
