"""What the doctor makes of AWS's answers, and its requests for each check, word for word: moto accepts wrong ones."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sharing.sections.cluster import ClusterSettings
from sharing.sections.existing import ExistingVpc
from sharing.sections.park import ParkSettings
from tandem.aws import quota, session
from tandem.doctor import registries
from tandem.doctor.case import Case
from tandem.doctor.checks import checks_for
from tests.conftest import Golden
from tests.tandem.aws.asked import Requests, lines
from tests.tandem.doctor.conftest import Cases
from tests.tandem.doctor.findings import findings, summary
from tests.tandem.doctor.scenes import configured
from tests.tandem.shown import quota as counted

ASKING = ("credentials", "region", "quotas", "offerings", "spot-role", "add-on-builds", "cluster")


@pytest.mark.slow
def test_every_request_matches_the_golden(case: Cases, requests: Requests, golden: Golden) -> None:
    said = []
    for stack in ("timeslice", "karpenter"):
        for check in ASKING:
            requests.clear()
            findings(check, case(stack))
            # All ask for the identity, as the first one does.
            said += [
                f"{stack} {check}",
                *(line for line in lines(requests) if check == ASKING[0] or "sts." not in line),
            ]
    golden("doctor-requests.txt", "\n".join([*said, ""]))


STACK = {"quotas", "offerings", "add-on-builds"}
CLUSTER = {"cluster", "state", "node-groups", "add-ons", "helm-releases"}
ALWAYS = {"python", "pulumi", "aws-cli", "credentials", "region"}


def test_each_check_is_made_where_it_has_a_subject(case: Cases) -> None:
    """`tests/tandem/doctor/test_existing_cluster.py` has those of an existing cluster."""
    every = ALWAYS | STACK | CLUSTER
    spot, charts = {"spot-role"}, {"registry-logins"}
    subnets = [f"subnet-{number:08d}" for number in (1, 2)]
    vpc = ClusterSettings(vpc=ExistingVpc(id="vpc-0000000a", subnets=subnets))
    park = ParkSettings(schedule="0 20 * * *", wake="0 8 * * *", timezone="UTC")
    pool = case("timeslice").planned_stack.plan.config.pools[0]
    plain = every | spot | charts
    for some, expected in (
        (case(region=""), ALWAYS - {"region"}),
        (case(), ALWAYS),
        (case("timeslice"), plain),
        (configured(case("timeslice"), park=park), plain | {"parking"}),
        (configured(case("timeslice"), cluster=vpc), plain | {"network"}),
        (configured(case("timeslice"), pools=[pool.changed(capacity="on-demand")]), plain - spot),
    ):
        assert {check.name for check in checks_for(some)} == expected


def answering(monkeypatch: pytest.MonkeyPatch, **client: Any) -> None:
    """Puts an account with this client in the place of the real one."""
    account: Any = SimpleNamespace(client=lambda _: SimpleNamespace(**client))
    monkeypatch.setattr(Case, "account", lambda _: account)
    monkeypatch.setattr(Case, "cluster", None)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("opt-in-not-required", ("ok", "us-east-1")),
        ("opted-in", ("ok", "us-east-1")),
        ("not-opted-in", ("stops", "us-east-1 is not-opted-in in this account")),
        (None, ("stops", "us-east-1 is unknown in this account")),
    ],
)
def test_a_region_must_be_enabled(
    status: str | None, expected: tuple[str, str], case: Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values of `OptInStatus`: EC2 API reference, Region."""
    asked: list[dict[str, Any]] = []

    def describe_regions(**arguments: Any) -> Any:
        asked.append(arguments)
        return {"Regions": [{"OptInStatus": status}] if status else []}

    answering(monkeypatch, describe_regions=describe_regions)
    there = case()
    monkeypatch.setattr(Case, "access", SimpleNamespace(region_closed=False, error=None))
    assert summary("region", there) == [expected]
    # Without it, EC2 leaves out regions that are not enabled.
    assert asked == [{"RegionNames": ["us-east-1"], "AllRegions": True}]


def test_a_quota_stops_up_only_if_it_is_too_low_for_the_first_nodes(
    case: Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four vCPUs now, eight at most, sixteen while nodes are replaced."""
    answering(monkeypatch)
    used = {"enough": (0, 16), "P": (0, 15), "VT": (0, 7), "Standard": (1100, 1103), "P6": (0, None)}
    made = [counted(name, used, 4, 8, 16, limit=limit) for name, (used, limit) in used.items()]
    monkeypatch.setattr(quota, "quota_checks", lambda *_: made)
    found = findings("quotas", case("timeslice"))
    assert [(one.verdict, one.text) for one in found] == [
        (
            "warning",
            "Running P instances (vCPUs): 0 of 15 used by others, 16 needed while nodes are updated or replaced",
        ),
        ("warning", "Running VT instances (vCPUs): 0 of 7 used by others, 8 needed at most"),
        ("stops", "Running Standard instances (vCPUs): 1,100 of 1,103 used by others, 4 needed"),
        ("unknown", "Running P6 instances (vCPUs): AWS does not report the limit"),
    ]
    *short, unknown = [one.fix for one in found]
    increase = "aws service-quotas request-service-quota-increase --region us-east-1 --service-code ec2 --quota-code L-"
    assert [fix.startswith(increase) for fix in short] == [True] * 3
    assert unknown == "aws service-quotas list-service-quotas --service-code ec2 --region us-east-1"
    monkeypatch.setattr(quota, "quota_checks", lambda *_: made[:1])
    assert summary("quotas", case("timeslice")) == [("ok", "1 quotas are enough")]


@pytest.mark.parametrize(
    ("code", "is_valid_at_home", "region", "is_closed"),
    [
        ("InvalidClientTokenId", True, "af-south-1", True),
        ("OptInRequired", True, "af-south-1", True),
        ("InvalidClientTokenId", False, "af-south-1", False),
        ("InvalidClientTokenId", True, "us-east-1", False),
        ("Throttling", True, "af-south-1", False),
    ],
)
def test_credentials_that_only_one_region_refuses_are_valid(
    code: str, is_valid_at_home: bool, region: str, is_closed: bool, case: Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS account management guide, Enable or disable AWS Regions in your account."""

    def refuse(error: str) -> None:
        refused = session.AccountError("no access")
        refused.__cause__ = ClientError({"Error": {"Code": error}}, "GetCallerIdentity")
        raise refused

    tried: list[Any] = []

    def connect(home: str, profile: str | None) -> None:
        tried.append((home, profile))
        if not is_valid_at_home:
            refuse("InvalidClientTokenId")

    monkeypatch.setattr(Case, "identity", SimpleNamespace(connect=lambda _: refuse(code)))
    monkeypatch.setattr(session, "connect", connect)
    access = case(region=region, profile="p").access
    assert (access.account, access.region_closed) == (None, is_closed)
    assert tried in ([("us-east-1", "p")], [])


HELM = "helm/registry/config.json"


@pytest.mark.parametrize(
    ("variables", "system", "file"),
    [
        ("PULUMI_K8S_HELM_REGISTRY_CONFIG_PATH=p HELM_REGISTRY_CONFIG=h HELM_CONFIG_HOME=c", "Linux", "p"),
        ("HELM_REGISTRY_CONFIG=h HELM_CONFIG_HOME=c XDG_CONFIG_HOME=x", "Linux", "h"),
        ("HELM_CONFIG_HOME=c XDG_CONFIG_HOME=x", "Linux", "c/registry/config.json"),
        ("XDG_CONFIG_HOME=x", "Linux", f"x/{HELM}"),
        ("HOME=/home/me", "Linux", f"/home/me/.config/{HELM}"),
        ("HOME=/Users/me", "Darwin", f"/Users/me/Library/Preferences/{HELM}"),
    ],
)
def test_logins_are_where_helm_looks(variables: str, system: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """pulumi-kubernetes provider.go; helm pkg/helmpath/lazypath_unix.go and lazypath_darwin.go."""
    monkeypatch.setattr("os.environ", dict(pair.split("=") for pair in variables.split()))
    monkeypatch.setattr("platform.system", lambda: system)
    assert registries._helm_file() == Path(file)
