"""An account for each test, with the ways into it."""

from __future__ import annotations

from collections.abc import Iterator
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

from tandem.account import clean_up
from tandem.account.deletion import Clock
from tandem.deployed.aws.session import Account, connect
from tests.tandem.account import whole_stack
from tests.tandem.account.creation import Creation
from tests.tandem.account.emulated import LOADER, REGION, Emulated
from tests.tandem.account.laws import Laws
from tests.tandem.account.passing import Passing

CLASSES: dict[str, type] = {}
"""By service: what botocore makes of its description. Clients share it; nothing of a session is in it."""
MADE: Any = ClientCreator._create_client_class  # type: ignore[attr-defined]
METHODS = cache(method_names_from_class)
"""Of moto's own classes, which it reads again for each call."""


def class_of(creator: ClientCreator, service: str, model: Any) -> type:
    if service not in CLASSES:
        CLASSES[service] = MADE(creator, service, model)
    return CLASSES[service]


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> Passing:
    """The clock of every deletion."""
    made = Passing()
    monkeypatch.setattr(clean_up, "Clock", lambda: Clock(now=made.now, sleep=made.sleep))
    return made


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, passing: Passing) -> Iterator[Emulated]:
    for key in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "aws-credentials"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    # moto's thousand images and snapshots, which every listing would go through.
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
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
def account(emulated: Emulated) -> Account:
    return connect(REGION)


@pytest.fixture
def ec2(emulated: Emulated) -> Any:
    return boto3.client("ec2", region_name=REGION)


@pytest.fixture
def creation(emulated: Emulated) -> Creation:
    return Creation(emulated)


@pytest.fixture
def laws(creation: Creation, emulated: Emulated, passing: Passing) -> Laws:
    """A whole stack, in an account with the emulated cloud's rules."""
    whole_stack.make(creation)
    made = Laws(emulated, passing.now)
    emulated.laws = made
    return made
