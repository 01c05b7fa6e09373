"""Whether the account lets a stack up: region, quotas, instance types, the role for spot."""

from __future__ import annotations

import pytest

from tandem.account.quota import SPOT_ROLE
from tests.tandem.account.creation import TRUST, Creation
from tests.tandem.account.emulated import ENOUGH, Emulated
from tests.tandem.doctor.conftest import Cases
from tests.tandem.doctor.findings import finding, findings, summary

SPOT_COMMAND = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"


def test_an_enabled_region_is_fine(emulated: Emulated, case: Cases) -> None:
    assert summary("region", case()) == [("ok", "us-east-1")]


@pytest.mark.real_world(
    behaviour="A region that the account has not enabled refuses good credentials as if they were wrong.",
    source="AWS account management guide, Enable or disable AWS Regions in your account",
)
def test_a_region_that_is_not_enabled_stops_up_and_the_credentials_do_not(emulated: Emulated, case: Cases) -> None:
    emulated.closed = {"af-south-1"}
    there = case("timeslice", region="af-south-1")
    assert summary("credentials", there)[0][0] == "ok"
    found = finding("region", there)
    assert (found.verdict, found.found) == ("stops", "af-south-1 is not enabled in this account")
    assert found.fix == "aws account enable-region --region-name af-south-1"
    assert finding("quotas", there).verdict == "unknown"


def test_a_quota_that_is_short_stops_up_and_one_that_is_short_later_warns(emulated: Emulated, case: Cases) -> None:
    emulated.quotas = dict(ENOUGH)
    assert [found.verdict for found in findings("quotas", case("timeslice"))] == ["ok"]
    emulated.quotas["L-3819A6DF"] = 0.0
    found = finding("quotas", case("timeslice"))
    assert found.verdict == "stops"
    assert found.found.startswith("All G and VT Spot Instance Requests (vCPU): 0 of 0 used by others, ")
    assert "request-service-quota-increase --region us-east-1 --service-code ec2 --quota-code L-3819A6DF" in found.fix


def test_a_quota_whose_limit_aws_does_not_say_is_not_fine(emulated: Emulated, case: Cases) -> None:
    emulated.quotas = dict(ENOUGH)
    del emulated.quotas["L-0263D0A3"]
    assert finding("quotas", case("timeslice")).verdict == "unknown"


def test_an_instance_type_that_no_zone_offers_stops_up(emulated: Emulated, case: Cases) -> None:
    emulated.offers = {"t3.medium": "abcdf"}
    found = findings("offerings", case("timeslice"))
    assert [each.verdict for each in found] == ["stops"]
    assert "g4dn.xlarge" in found[0].found


@pytest.mark.real_world(
    behaviour="Karpenter does not create the service-linked role for spot; EC2 Auto Scaling may.",
    source="karpenter-provider-aws pkg/providers/instance/instance.go; AWS managed policy AutoScalingServiceRolePolicy",
)
@pytest.mark.parametrize(("stack", "verdict"), [("timeslice", "warning"), ("karpenter", "stops")])
def test_a_missing_role_for_spot_is_found_with_the_command_that_makes_it(
    emulated: Emulated, creation: Creation, case: Cases, stack: str, verdict: str
) -> None:
    found = finding("spot-role", case(stack))
    assert (found.verdict, found.fix) == (verdict, SPOT_COMMAND)
    creation.iam.create_role(RoleName=SPOT_ROLE, AssumeRolePolicyDocument=TRUST)
    assert finding("spot-role", case(stack)).verdict == "ok"


@pytest.mark.parametrize("code", ["AccessDenied", "Throttling", "ExpiredToken"])
@pytest.mark.parametrize(
    ("check", "operation"),
    [
        ("region", "DescribeRegions"),
        ("quotas", "GetServiceQuota"),
        ("quotas", "DescribeInstances"),
        ("offerings", "DescribeInstanceTypeOfferings"),
        ("offerings", "DescribeAvailabilityZones"),
        ("spot-role", "GetRole"),
    ],
)
def test_a_question_that_aws_does_not_answer_is_not_fine(
    emulated: Emulated, case: Cases, check: str, operation: str, code: str
) -> None:
    emulated.quotas = dict(ENOUGH)
    emulated.denied[operation] = code
    found = finding(check, case("timeslice"))
    assert (found.verdict, code in found.found) == ("unknown", True)
