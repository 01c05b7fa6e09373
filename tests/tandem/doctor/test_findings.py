"""The doctor's findings on a machine, in an account and for a deployed stack, by `scenes.yaml`."""

from typing import Any

import pytest
import yaml
from botocore.exceptions import EndpointConnectionError

from stacks import program
from tandem.doctor.checks import checks_for
from tests.tandem.aws.creation import Creation
from tests.tandem.aws.emulated import CLUSTER, ENOUGH, OURS, Emulated
from tests.tandem.doctor.conftest import ROOT, Cases, planned
from tests.tandem.doctor.findings import finding, summary
from tests.tandem.doctor.scenes import PUBLIC, SCENES, Play, Scene, with_charts


@pytest.mark.slow
@pytest.mark.real_world(
    behaviour="Pulumi before 3.217 has no RPC `RequirePulumiVersion`: the Python SDK then stops the program.",
    source="pulumi/pulumi proto/pulumi/engine.proto, 3.214 to 3.217; sdk/python/lib/pulumi/runtime/settings.py",
)
@pytest.mark.real_world(
    behaviour="The eks provider refuses an AWS CLI older than 1.24.0, or 2.7.0, and one that is missing.",
    source="pulumi-eks nodejs/eks/dependencies.ts; run against the provider, 2026-11",
)
@pytest.mark.real_world(
    behaviour="A region that the account has not enabled refuses good credentials as if they were wrong.",
    source="AWS account management guide, Enable or disable AWS Regions in your account",
)
@pytest.mark.real_world(
    behaviour="EKS withdraws old builds of its add-ons, and refuses them: Addon version specified is not supported.",
    source="EKS API reference, CreateAddon, InvalidParameterException; DescribeAddonVersions",
)
@pytest.mark.real_world(
    behaviour="Temporary credentials that expire during `up` stop it halfway; a chained role lasts an hour at most.",
    source="AWS IAM user guide, Roles terms and concepts, Role chaining; botocore/credentials.py, EnvProvider",
)
@pytest.mark.real_world(
    behaviour="EKS accepts the account's root user as the principal of an access entry, but it gives nobody access.",
    source="kubernetes-sigs/aws-iam-authenticator issue 797",
)
@pytest.mark.real_world(
    behaviour="STS refuses a session longer than an hour for a role that is assumed through another role.",
    source="AWS STS API reference, AssumeRole, DurationSeconds; IAM user guide, Role chaining",
)
@pytest.mark.real_world(
    behaviour="A subnet cannot move to another zone, so a cluster keeps its zones.",
    source="terraform-provider-aws internal/service/ec2/vpc_subnet.go, availability_zone ForceNew",
)
@pytest.mark.real_world(
    behaviour="Karpenter does not create the service-linked role for spot; EC2 Auto Scaling may.",
    source="karpenter-provider-aws pkg/providers/instance/instance.go; AWS managed policy AutoScalingServiceRolePolicy",
)
@pytest.mark.real_world(
    behaviour="The engine marks a resource the same way after a failed creation and a failed update.",
    source="pulumi pkg/resource/deploy/step.go and step_generator.go, initErrorSpecialKey",
)
@pytest.mark.real_world(
    behaviour="EKS keeps a node group that failed to create, and never repairs it.",
    source="aws/containers-roadmap#764; EKS API reference, Nodegroup.status",
)
@pytest.mark.real_world(
    behaviour="`pulumi refresh` removes the mark of a failed creation from the state, but EKS keeps the failed group.",
    source="pulumi pkg/resource/deploy/step.go, RefreshStep; tests/engine/test_failed_groups.py",
)
@pytest.mark.real_world(
    behaviour="An update of a node group continues only with four health issues, about capacity and reachability.",
    source="repost.aws/knowledge-center/eks-managed-node-group-update, error message of UpdateNodegroupVersion",
)
@pytest.mark.real_world(
    behaviour="Helm refuses to upgrade a release that a killed process left pending; `helm rollback` still works.",
    source="helm pkg/action/upgrade.go, errPending; pkg/action/rollback.go, prepareRollback",
)
@pytest.mark.real_world(
    behaviour="Public ECR refuses a public chart (403) if the login has expired; Helm also sends Docker's logins.",
    source="aws/karpenter-provider-aws#3441 and #3880; helm pkg/registry/client.go",
)
@SCENES
def test_a_scene_has_its_findings_and_shows_no_token(play: Play, scene: Scene) -> None:
    play(scene)


def test_project_and_program_require_the_first_pulumi_that_can_check_its_version() -> None:
    # pulumi/pulumi, proto/pulumi/engine.proto: `RequirePulumiVersion` since v3.217.0.
    assert yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["requiredPulumiVersion"] == ">=3.217.0"
    assert program.OLDEST_PULUMI == ">=3.217.0"


def test_credentials_that_may_expire_during_up_are_a_warning(
    emulated: Emulated, case: Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimate = planned("timeslice").planned.startup
    # The estimate is some 20 minutes, give or take 3: one minute more is within that range.
    assert 15 < estimate.minutes < 30
    assert 1.5 < estimate.plus_minus < 10
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", f"2099-01-01T12:{int(estimate.minutes) + 2:02}:00Z")
    assert finding("credentials", case("timeslice")).verdict == "warning"


def test_unreachable_aws_is_not_fine(emulated: Emulated, case: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise EndpointConnectionError(endpoint_url="https://sts.us-east-1.amazonaws.com/")

    monkeypatch.setattr("botocore.httpsession.URLLib3Session.send", away)
    monkeypatch.setattr(type(emulated), "__call__", away)
    assert {finding(check, case("timeslice")).verdict for check in ("credentials", "quotas")} == {"unknown"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "operation", "code"),
    [
        ("region", "DescribeRegions", "ExpiredToken"),
        ("quotas", "GetServiceQuota", "AccessDeniedException"),
        ("offerings", "DescribeInstanceTypeOfferings", "Throttling"),
        ("spot-role", "GetRole", "AccessDeniedException"),
        ("add-on-builds", "DescribeAddonVersions", "ExpiredToken"),
        ("node-groups", "DescribeNodegroup", "Throttling"),
        ("add-ons", "ListAddons", "AccessDeniedException"),
        ("helm-releases", "DescribeCluster", "AccessDeniedException"),
    ],
)
def test_an_unanswered_request_to_aws_is_not_fine(
    emulated: Emulated, creation: Creation, case: Cases, check: str, operation: str, code: str
) -> None:
    emulated.quotas = dict(ENOUGH)
    creation.EKS_clusters(OURS, CLUSTER)
    creation.node_groups(OURS, CLUSTER)
    emulated.denied[operation] = code
    found = finding(check, case("timeslice"))
    assert (found.verdict, code in found.text) == ("unknown", True)


def test_only_charts_that_come_from_a_registry_are_checked(case: Cases) -> None:
    asked = [check.name for check in checks_for(with_charts(case("timeslice"), "ollama"))]
    assert "registry-logins" not in asked
    assert ("ok", f"no login for {PUBLIC}, and none is needed") in summary("registry-logins", case("karpenter"))
