"""Outputs that are not known before a deployment, as the engine receives them."""

from sandbox.cloud.protocol import Creation
from sandbox.engine.unknown import after_update, expected, holds_unknown, settled, with_stand_ins
from sandbox.graph import Secret
from sandbox.wire import UNKNOWN
from sandbox.world import tokens


def test_a_text_that_contains_an_unknown_becomes_unknown_and_any_other_stays() -> None:
    given = {"url": f"http://{UNKNOWN}:80", "name": "one", "list": [f"{UNKNOWN}-a", "b", 3, None]}
    assert settled(given) == {"url": UNKNOWN, "name": "one", "list": [UNKNOWN, "b", 3, None]}
    assert settled({"key": Secret(f"a{UNKNOWN}"), "word": Secret("known")}) == {
        "key": Secret(UNKNOWN),
        "word": Secret("known"),
    }


def test_an_unknown_is_found_at_any_depth() -> None:
    assert holds_unknown({"a": [{"b": f"x{UNKNOWN}"}]})
    assert not holds_unknown({"a": [{"b": "x"}], "c": 1, "d": None})


NETWORK = {"subnetIds": [UNKNOWN, "subnet-1"]}
CREATION = Creation(type=tokens.CLUSTER, name="c", inputs={"name": "c", "vpcConfig": NETWORK, "tags": UNKNOWN})


def test_a_preview_shows_the_inputs_of_a_new_resource_and_hides_what_aws_computes() -> None:
    computed = ("region", "arn", "version", "endpoint", "certificateAuthority", "status")
    network = {**NETWORK, "clusterSecurityGroupId": UNKNOWN, "vpcId": UNKNOWN}
    shown = {"name": "c", "tags": UNKNOWN, "vpcConfig": network, **dict.fromkeys(computed, UNKNOWN)}
    assert expected(CREATION) == shown


def test_an_unknown_output_gets_a_stand_in_of_its_shape() -> None:
    """An ARN has six parts (docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html)."""
    outputs = {"name": "given", "arn": UNKNOWN, "of-no-rule": UNKNOWN, "tags": {"a": "b"}, "certificateAuthority": {}}
    filled = with_stand_ins(CREATION, outputs)
    assert filled["arn"] == ":".join([UNKNOWN] * 6)
    assert filled["vpcConfig"]["vpcId"] == filled["certificateAuthority"]["data"] == UNKNOWN
    assert (filled["name"], filled["of-no-rule"], filled["tags"]) == ("given", UNKNOWN, {"a": "b"})


def test_a_preview_shows_what_an_update_changes_besides_its_inputs() -> None:
    assert after_update(tokens.TEMPLATE, {"latestVersion": 1, "arn": "a"}, {}) == {"latestVersion": UNKNOWN, "arn": "a"}
    assert after_update(tokens.RELEASE, {"status": {}}, {"version": "2"}) == {"status": UNKNOWN, "version": "2"}
    assert after_update(tokens.VPC, {"tags": {}}, {"tags": {"a": "b"}}) == {"tags": {"a": "b"}}
