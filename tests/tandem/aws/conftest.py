"""An account for each test, and fixtures that use it."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import botocore.handlers
import botocore.session
import pytest
from botocore.client import ClientCreator
from moto import mock_aws
from moto.core import responses
from moto.core.utils import method_names_from_class

from tandem.aws.session import Account
from tandem.leftovers import clean_up
from tandem.main import main
from tests.command import Screen
from tests.tandem.aws import whole_stack
from tests.tandem.aws.asked import Requests
from tests.tandem.aws.cleaning import Cleaning
from tests.tandem.aws.creation import Creation
from tests.tandem.aws.emulated import LOADER, Emulated
from tests.tandem.aws.slow_deletions import Delays

Run = Callable[..., tuple[int, str, str]]
Answers = Callable[[str], None]
Records = Callable[[], list[dict[str, Any]]]
CLASSES: dict[str, type] = {}
"""The class that botocore makes of each service's description. Clients share it: it holds nothing of a session."""
MADE: Any = ClientCreator._create_client_class  # type: ignore[attr-defined]
METHODS = cache(method_names_from_class)
"""The methods of moto's classes, which moto otherwise reads again for each call."""


def class_of(creator: ClientCreator, service: str, model: Any) -> type:
    if service not in CLASSES:
        CLASSES[service] = MADE(creator, service, model)
    return CLASSES[service]


@pytest.fixture
def cleaning(monkeypatch: pytest.MonkeyPatch) -> Cleaning:
    """Its clock is also that of every deletion."""
    made = Cleaning()
    monkeypatch.setattr(clean_up, "Clock", lambda: made.clock)
    return made


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cleaning: Cleaning) -> Iterator[Emulated]:
    for key in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(key, raising=False)
    variables = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_CONFIG_FILE": str(tmp_path / "aws-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "aws-credentials"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        # Otherwise every listing goes through moto's thousand images and snapshots.
        "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",
    }
    for key, value in variables.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(botocore.session, "create_loader", lambda *_: LOADER)
    monkeypatch.setattr(ClientCreator, "_create_client_class", class_of)
    monkeypatch.setattr(responses, "method_names_from_class", METHODS)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    here = Emulated()
    monkeypatch.setattr(botocore.handlers, "BUILTIN_HANDLERS", [*botocore.handlers.BUILTIN_HANDLERS])
    with mock_aws():
        botocore.handlers.BUILTIN_HANDLERS.append(("before-parameter-build", here.remember))
        botocore.handlers.BUILTIN_HANDLERS.append(("before-call", here))
        botocore.handlers.BUILTIN_HANDLERS.append(("after-call", here.lose))
        yield here


@pytest.fixture
def requests(emulated: Emulated, cleaning: Cleaning) -> Requests:
    """Every request from now on, with its time."""
    asked: Requests = []

    def remember(params: Any, model: Any, **_: Any) -> None:
        asked.append((f"{model.service_model.service_name}.{model.name}", dict(params), cleaning.seconds))

    botocore.handlers.BUILTIN_HANDLERS.append(("before-parameter-build", remember))
    return asked


@pytest.fixture
def account(emulated: Emulated, cleaning: Cleaning) -> Account:
    return cleaning.account


@pytest.fixture
def creation(emulated: Emulated) -> Creation:
    return Creation(emulated)


@pytest.fixture
def delays(creation: Creation, emulated: Emulated, cleaning: Cleaning) -> Delays:
    """A whole stack, in an account whose deletions take as long as AWS's."""
    whole_stack.make(creation)
    cleaning.census = creation.census
    made = emulated.slow = Delays(emulated, cleaning.now)
    return made


@pytest.fixture
def tandem(emulated: Emulated, capsys: pytest.CaptureFixture[str]) -> Run:
    """Calls a command; returns its exit code and its output on both streams."""

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([*arguments])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def run(tandem: Run) -> Run:
    return lambda *arguments: tandem("leftovers", *arguments)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    return lambda text: monkeypatch.setattr("sys.stdin", Screen(text))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the records."""
    return tmp_path / "state" / "tandem" / "leftovers"


@pytest.fixture
def records(folder: Path) -> Records:
    return lambda: [json.loads(line) for file in sorted(folder.iterdir()) for line in file.read_text().splitlines()]
