"""Which tags AWS and the controllers of a cluster accept."""

import pytest

from sharing.aws.tags import (
    judge_tags,
    warn_of_claimed_volumes,
)
from sharing.names import StackTags, filled, own_tags, stack_tags

LETTERS = "must be letters, digits, spaces or `.:/=+@-_`"
WRONG_KEYS = {
    # AWS: "or any upper or lowercase combination of such as a prefix".
    **dict.fromkeys(["aws:x", "AWS:x", "Aws:x", " aws:x"], "begins with `aws:`, which AWS reserves"),
    **dict.fromkeys(
        ["tandem:stack", "Tandem:Stack", "TANDEM:PROJECT", "tandem:anything"],
        "begins with `tandem:`, which this program reserves",
    ),
    # aws-ebs-csi-driver 429e202, pkg/driver/validation.go and constants.go.
    **dict.fromkeys(
        ["kubernetes.io/role", "Kubernetes.IO/x", "CSIVolumeName", "csivolumesnapshotname", "ebs.csi.aws.com/cluster"],
        "which the EBS driver reserves",
    ),
    "KubernetesCluster": "which names the cluster that owns a resource",
    # karpenter-provider-aws 1.14.1, pkg/apis/v1/ec2nodeclass.go.
    "eks:eks-cluster-name": "begins with `eks:`, which EKS reserves",
    **dict.fromkeys(["karpenter.sh/nodepool", "karpenter.k8s.aws/ec2nodeclass"], "which Karpenter reserves"),
    # amazon-vpc-cni-k8s b521883, pkg/awsutils/awsutils.go.
    **dict.fromkeys(
        ["cluster.k8s.amazonaws.com/name", "node.k8s.amazonaws.com/instance_id"], "which the VPC CNI reserves"
    ),
    "name": "differs from `Name` of this program only in case, which IAM does not see. Write another key.",
    # botocore 1.44.5: min and max of tagKeyType, and its pattern.
    "": "is an empty key. Write a name.",
    "  ": "is an empty key. Write a name.",
    "k" * 129: "must have at most 128 characters. Shorten it by 1.",
    "a!": f"{LETTERS}. Remove '!'.",
    "a,b": f"{LETTERS}. Remove ','.",
    "\ufeffteam": f"{LETTERS}. Remove U+FEFF ZERO WIDTH NO-BREAK SPACE.",
}
WRONG_VALUES = {
    "aws:x": "begins with `aws:`, which AWS reserves; found 'aws:x'. Write another value.",
    **dict.fromkeys(["AWS:x", " aws:x "], "begins with `aws:`"),
    "v" * 257: "must have at most 256 characters, not 257 characters. Shorten it by 1.",
    "a\nb": f"{LETTERS}, not 'a b'. Remove '\\n'.",
    "100 %": f"{LETTERS}, not '100 %'. Remove '%'.",
}
RIGHT = {
    "Name": "x",
    "team": "",
    "cost centre": "a.b:c/d=e+f@g-h_1",
    "größe": "v" * 256,
    "k" * 128: "Ünïcode",
    "awsx": "aws",
}


def errors(*given: dict[str, str], added: tuple[str, ...] = ()) -> list[str]:
    paths = ("defaults", "tags") if len(given) == 2 else ("tags",)
    return [str(problem) for problem in judge_tags(dict(zip(paths, given, strict=True)), added)]


def many(count: int, prefix: str = "key") -> dict[str, str]:
    return {f"{prefix}-{number}": "v" for number in range(count)}


@pytest.mark.parametrize("key", WRONG_KEYS)
def test_a_key_that_aws_or_a_controller_reserves_or_refuses_is_one_error(key: str) -> None:
    [error] = errors({"team": "ml", key: "v"})
    assert error.startswith(f"tags.{key}: ".replace("\ufeff", ""))
    assert WRONG_KEYS[key] in error


@pytest.mark.parametrize("value", WRONG_VALUES)
def test_a_value_that_aws_refuses_is_one_error(value: str) -> None:
    [error] = errors({"team": value})
    assert error.startswith("tags.team: ")
    assert WRONG_VALUES[value] in error


def test_everything_that_aws_allows_is_accepted() -> None:
    assert errors(RIGHT) == []


def test_keys_are_compared_without_case_also_between_two_mappings() -> None:
    keep = "only in case, which IAM does not see. Keep one of the two."
    assert errors({"team": "a", "Team": "b"}) == [f"tags.Team: differs from `team` of `tags` {keep}"]
    assert errors({"Team": "a"}, {"team": "b"}) == [f"tags.team: differs from `Team` of `defaults` {keep}"]
    assert errors({"team": "a"}, {"team": "b"}) == []


def test_50_tags_with_those_of_others_are_accepted_and_51_are_not() -> None:
    assert errors(many(50)) == []
    assert errors(many(53)) == ["tags: must have at most 50 entries, not 53. AWS allows 50 on a resource. Remove 3."]
    assert errors(many(48), added=("Name", "x")) == []
    # `Name` counts once.
    assert errors({**many(48), "Name": "mine"}, added=("Name", "x")) == []
    assert errors(many(30), many(18, "other"), added=("Name", "x")) == []
    assert errors(many(30), many(19, "other"), added=("Name", "x")) == [
        "tags: must have at most 48 entries, not 49 with those of `defaults`. AWS allows 50 on a resource. Remove 1."
    ]
    assert errors(many(30), many(30), added=("Name", "x")) == []
    assert [error[:9] for error in errors(many(60), {})] == ["defaults:"]


def test_a_warning_names_the_mappings_that_leave_no_room_for_claimed_volumes() -> None:
    [alone] = warn_of_claimed_volumes({"defaults": {}, "tags": many(40)})
    assert str(alone).startswith("tags: 40 tags make volumes for claims impossible. AWS allows 50 on a resource")
    [both] = warn_of_claimed_volumes({"defaults": many(30), "tags": many(10, "other")})
    assert str(both).startswith("tags: 40 tags, with those of `defaults`, make volumes for claims impossible. ")
    assert [*warn_of_claimed_volumes({"defaults": {}, "tags": many(39)})] == []
    # A node has two tags of the stack and six of AWS: more than 42 are an error.
    assert [len([*warn_of_claimed_volumes({"tags": many(count)})]) for count in (42, 43)] == [1, 0]


def test_tags_of_a_user_never_replace_those_that_identify_a_stack() -> None:
    found = stack_tags("dev", {"team": "ml", "tandem:stack": "prod", "tandem:project": "x"})
    assert found == {**own_tags("dev"), "team": "ml"}
    assert isinstance(found, StackTags)


def test_eventbridge_scheduler_gets_no_empty_values() -> None:
    assert filled({"team": "ml", "owner": ""}) == {"team": "ml"}
