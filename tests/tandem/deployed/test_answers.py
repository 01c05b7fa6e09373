"""Answers of a Kubernetes API server: every accepted one can be checked and shown, and others are refused."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tandem.deployed.answers import Listing, plain
from tandem.deployed.objects import Facts, state
from tandem.deployed.replies import MalformedError, checked
from tandem.verify.overfill import free_shares
from tests.tandem.deployed.mutated import JSON, mutated
from tests.tandem.seen import checks, daemon_set, facts, node, pending, pod, restarting

OBJECTS = [node(), *facts().pods, *facts().daemon_sets["nvidia-device-plugin"], restarting("llama2-7b", "spilled")]
LIST = {"metadata": {"continue": None}, "items": [*OBJECTS, pending("llama2-7b", "Insufficient nvidia.com/gpu")]}


def listed(answer: Any) -> list[dict[str, Any]]:
    return plain(checked(Listing, json.dumps(answer).encode()).items)


@given(st.data())
def test_no_object_of_a_server_causes_a_traceback(data: st.DataObject) -> None:
    """One value of an answer is replaced by another, anywhere."""
    try:
        found = listed(mutated(LIST, data.draw(JSON), data))
    except MalformedError:
        return
    seen = Facts(found, {"nvidia-device-plugin": found}, found, found)
    for check in checks(seen).values():
        shown = f"{check.found} {check.fix} {check.expected}"
        assert shown.isprintable()
        shown.encode()
    assert free_shares("nvidia.com/gpu", found, found) >= 0
    assert all(state(one).isprintable() for one in found)


@given(st.binary() | JSON.map(lambda some: json.dumps(some).encode()))
@example(b"<html>")
@example(b"[" * 100_000)
@example(b"[]")
@example(b'{"items": {}}')
@example(b'{"items": [{"metadata": {"name": "\\ud800"}}]}')
def test_an_answer_that_is_not_a_list_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedError) as error:
        checked(Listing, body)
    assert str(error.value).isprintable()


def test_null_means_absent() -> None:
    [found] = listed({"items": [{"metadata": {"name": "a", "labels": None}, "spec": None, "status": None}]})
    assert found == {"metadata": {"name": "a"}}


def test_only_used_fields_are_kept_and_all_are_printable() -> None:
    odd = pod("llama2-7b", "\x1b[2Ja")
    odd["status"]["containerStatuses"] = [{"state": {"waiting": {"reason": "\x9b2J", "message": "\x07b"}}}]
    odd["data"] = {"release": "c2VjcmV0"}
    [found] = listed({"items": [odd]})
    assert found["metadata"]["name"] == "[2Ja"
    assert found["status"]["containerStatuses"][0]["state"]["waiting"] == {"reason": "2J", "message": "b"}
    assert "data" not in found


def test_the_priority_of_a_pod_is_kept_with_its_class() -> None:
    ranked = pod("llama2-7b")
    ranked["spec"].update(priority=-10, priorityClassName="low")
    [found] = listed({"items": [ranked]})
    assert (found["spec"]["priority"], found["spec"]["priorityClassName"]) == (-10, "low")


def test_a_thousand_shares_are_read_in_kubernetes_notation() -> None:
    """apimachinery pkg/api/resource/quantity.go, CanonicalizeBytes: 1000 is 1k."""
    many = node()
    many["status"]["allocatable"]["nvidia.com/gpu"] = "1k"
    assert free_shares("nvidia.com/gpu", listed({"items": [many]}), []) == 1000
    assert listed({"items": [daemon_set("a", desired=3)]})[0]["status"]["desiredNumberScheduled"] == 3
    [new] = listed({"items": [{"metadata": {"name": "b"}, "status": {}}]})
    assert (new["status"]["desiredNumberScheduled"], new["status"]["numberReady"]) == (0, 0), "none is wanted yet"
