"""Which ARNs may be admins of a cluster: cases copied by hand from the IAM and EKS documentation."""

import pytest

from sharing.aws.principals import judge_principal
from tests.sharing.builders import read_cases

TABLE = read_cases("principals")


@pytest.mark.parametrize("row", TABLE["accepted"], ids=lambda row: row["arn"])
def test_roles_and_users_of_the_regions_partition_are_admins(row: dict[str, str]) -> None:
    assert judge_principal("cluster.admins[0]", row["arn"], row["region"]) is None


@pytest.mark.parametrize("row", TABLE["refused"], ids=lambda row: row["arn"])
def test_other_arns_are_refused_with_the_one_to_write(row: dict[str, str]) -> None:
    problem = judge_principal("cluster.admins[0]", row["arn"], "us-east-1")
    assert problem is not None
    assert problem.path == "cluster.admins[0]"
    assert row["rule"] in problem.rule
    assert row["fix"] in problem.fix


def test_control_characters_of_an_arn_are_not_shown() -> None:
    problem = judge_principal("cluster.admins[0]", "arn:\x1b[31m", "us-east-1")
    assert problem is not None
    assert "\x1b" not in str(problem)
