"""What the emulated providers answer the engine, without the engine."""

from typing import Any
from unittest.mock import MagicMock

import pytest
from pulumi.runtime.proto import provider_pb2

from sandbox import wire
from sandbox.engine.servicer import Servicer

SOME, NONE = provider_pb2.DiffResponse.DIFF_SOME, provider_pb2.DiffResponse.DIFF_NONE


@pytest.mark.parametrize(
    ("olds", "news", "changes", "replaces"),
    [
        ({"region": "us-east-1"}, {"region": "us-east-1"}, NONE, []),
        ({"region": "us-east-1"}, {"region": "us-east-1", "profile": "work"}, SOME, []),
        ({"region": "us-east-1"}, {"region": "us-west-2"}, SOME, ["region"]),
    ],
)
def test_another_region_replaces_what_a_provider_made_and_other_inputs_update_it(
    olds: dict[str, Any], news: dict[str, Any], changes: int, replaces: list[str]
) -> None:
    request = provider_pb2.DiffRequest()
    wire.write(olds, request.old_inputs)
    wire.write(news, request.news)
    found = Servicer("aws", "7.0.0").DiffConfig(request, MagicMock())
    assert (found.changes, list(found.replaces)) == (changes, replaces)
