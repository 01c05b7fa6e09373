"""`tandem park` and `tandem wake`, in an emulated account."""

import argparse
import json
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
import yaml
from moto.eks.models import eks_backends
from moto.sqs.models import sqs_backends

from stacks.stack_file.judge import judge_file
from tandem.aws import parked_nodes
from tandem.deployed import parking
from tandem.deployed.patience import Patience
from tandem.verify import command
from tests.command import ROOT, call
from tests.tandem.aws import scripted
from tests.tandem.aws.cleaning import Cleaning
from tests.tandem.aws.creation import Creation
from tests.tandem.aws.emulated import ACCOUNT, CLUSTER, OURS, REGION, Emulated, pairs
from tests.tandem.deployed.pretended import Clock

pytestmark = pytest.mark.slow

PARK = {"schedule": "0 20 * * MON-FRI", "wake": "0 8 * * MON-FRI"}
POOL = {"labels": {"tandem/pool": "gpu"}, "scalingConfig": {"minSize": 1, "desiredSize": 2, "maxSize": 2}}


@pytest.fixture
def group(creation: Creation) -> str:
    """The name of the deployed node group."""
    creation.EKS_clusters(OURS, name=CLUSTER)
    creation.node_groups(OURS, cluster=CLUSTER)
    return creation.node_groups(OURS, cluster=CLUSTER, **POOL).partition("/")[2]


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A stack file with the section `park`."""
    return written(tmp_path, park=PARK)


def written(folder: Path, **sections: Any) -> str:
    values = yaml.safe_load((ROOT / "Pulumi.timeslice.yaml").read_text(encoding="utf-8"))
    values["config"]["tandem:gpu-nodes"] = {"instance-types": ["g4dn.xlarge"], "max": 2}
    values["config"] |= {f"tandem:{name}": content for name, content in sections.items()}
    path = folder / "Pulumi.timeslice.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return str(path)


def nodes(group: str) -> dict[str, int]:
    eks = boto3.client("eks", region_name=REGION)
    found = eks.describe_nodegroup(clusterName=CLUSTER, nodegroupName=group)["nodegroup"]["scalingConfig"]
    return {name: int(size) for name, size in found.items()}


def schedules(creation: Creation) -> str:
    """A schedule of the stack; returns the URL of its dead-letter queue."""
    queue = creation.SQS_queues(OURS)
    creation.schedule_groups(OURS, queue=f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue.rpartition('/')[2]}")
    return queue


def test_park_removes_the_nodes_and_wake_brings_back_as_many_as_the_maximum(group: str, file: str) -> None:
    done = call("park", file)
    assert (done.returncode, done.stdout) == (0, f"gpu: 2 to 0 nodes ({group})\n")
    assert nodes(group) == {"minSize": 0, "desiredSize": 0, "maxSize": 2}
    done = call("park", file, "--json")
    assert done.json == {
        "schema_version": 1,
        "stack": "timeslice",
        "groups": [{"group": group, "was": 0, "nodes": 0}],
        "job": None,
    }
    assert call("park", file).stdout == f"gpu: 0 nodes already ({group})\n"
    assert call("wake", file, "--no-wait").stdout == f"gpu: 0 to 2 nodes ({group})\n"
    assert nodes(group) == {"minSize": 0, "desiredSize": 2, "maxSize": 2}
    [found] = parking.find_groups(argparse.Namespace(stack=file, profile=None), judge_file(Path(file)).plan())
    assert (found.pool, found.name, found.nodes, found.most) == ("gpu", group, 2, 2)


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[argparse.Namespace]:
    """The calls of `verify`, which fails."""
    calls: list[argparse.Namespace] = []

    def verify(parsed: argparse.Namespace) -> int:
        calls.append(parsed)
        return 1

    monkeypatch.setattr(command, "_run", verify)
    return calls


def test_after_wake_the_progress_of_nodes_and_models_is_shown(
    group: str, file: str, verified: list[argparse.Namespace]
) -> None:
    assert call("park", file).returncode == 0
    for options in ("--no-wait", "--json"):
        assert call("wake", file, options).returncode == 0
    assert verified == []
    done = call("wake", file)
    assert (done.returncode, done.stdout) == (1, f"gpu: 2 nodes already ({group})\n")
    assert [(one.stack, one.wait) for one in verified] == [(file, 1800)]


def test_schedules_of_other_stacks_are_not_read(creation: Creation, cleaning: Cleaning) -> None:
    creation.schedule_groups({})  # whose dead-letter queue does not exist, so reading it would fail
    schedules(creation)
    assert parked_nodes.find_failures(cleaning.account, "timeslice") == []


def test_the_schedules_of_a_group_are_asked_for_and_messages_stay_visible() -> None:
    account: Any = scripted.Account(
        {
            "eks describe_cluster": {"cluster": {"tags": OURS}},
            "scheduler list_schedule_groups": {"ScheduleGroups": [{"Name": "s", "Arn": "arn:s"}]},
            "scheduler list_tags_for_resource": {"Tags": pairs(OURS)},
            "scheduler list_schedules": {"Schedules": [{"Name": "park"}]},
            "scheduler get_schedule": {"Target": {"DeadLetterConfig": {"Arn": "arn:aws:sqs:us-east-1:1:q"}}},
            "sqs get_queue_url": {"QueueUrl": "https://q"},
        }
    )
    assert parked_nodes.find_failures(account, "timeslice") == []
    attributes = '"AttributeNames": ["SentTimestamp"], "MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"]'
    assert account.requests[-4:] == [
        'scheduler list_schedules {"GroupName": "s"}',
        'scheduler get_schedule {"GroupName": "s", "Name": "park"}',
        'sqs get_queue_url {"QueueName": "q"}',
        f'sqs receive_message {{{attributes}, "QueueUrl": "https://q", "VisibilityTimeout": 0}}',
    ]


def test_a_group_that_is_not_active_is_left_alone(group: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = eks_backends[ACCOUNT][REGION].clusters[CLUSTER].nodegroups[group]
    raw.status = "DEGRADED"
    raw.health = {"issues": [{"code": "AsgInstanceLaunchFailures", "message": "no capacity"}]}
    done = call("park", file)
    assert (done.returncode, nodes(group)["desiredSize"]) == (1, 2)
    assert f"node group {group} is DEGRADED and may refuse the change: AsgInstanceLaunchFailures" in done.stderr


def test_a_stack_without_the_section_and_one_that_is_not_deployed_are_refused(
    tmp_path: Path, creation: Creation
) -> None:
    done = call("park", written(tmp_path, park=None))
    assert (done.returncode, "has no section `park`" in done.stderr) == (2, True)
    done = call("wake", written(tmp_path, park=PARK), "--no-wait")
    assert (done.returncode, "has no cluster in us-east-1" in done.stderr) == (2, True)


def test_models_that_scale_to_zero_are_woken_by_a_request(tmp_path: Path) -> None:
    sections = {"gpu-nodes": {"provisioner": "karpenter"}, "scale-to-zero": {"enabled": True}}
    done = call("wake", written(tmp_path, **sections))
    assert done.returncode == 2
    assert "Run `tandem run timeslice`, or send a request to a URL of `pulumi stack output endpoints`" in done.stderr


@pytest.fixture
def karpenter(tmp_path: Path) -> str:
    """A stack whose only pool belongs to Karpenter."""
    pool = {"provisioner": "karpenter", "instance-types": ["g4dn.xlarge"], "max": 1}
    return written(tmp_path, park=PARK, **{"gpu-nodes": pool})


COMPLETE = {"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]}


class Jobs:
    """A cluster that answers with these states of its only Job, one after the other."""

    def __init__(self, *states: dict[str, Any]) -> None:
        self._states = list(states)
        self.started: list[tuple[str, str]] = []

    def start_cron_job(self, name: str, namespace: str) -> str:
        self.started.append((name, namespace))
        return f"{name}-now-x"

    def jobs(self, namespace: str) -> list[dict[str, Any]]:
        state = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        other = {"metadata": {"name": "tandem-parking-wake-1"}, "status": COMPLETE}
        return [other, {"metadata": {"name": f"{self.started[-1][0]}-now-x"}, "status": state}]


@pytest.fixture
def reach(monkeypatch: pytest.MonkeyPatch) -> Callable[[Jobs], None]:
    """A function that puts a cluster in the place of the stack's, in which no time passes."""

    def set_(cluster: Jobs) -> None:
        clock = Clock()
        patience = partial(Patience, clock=clock, sleep=clock.sleep)
        monkeypatch.setattr(parking, "Patience", patience)
        reached = SimpleNamespace(cluster=cluster)
        monkeypatch.setattr(parking, "reached", lambda parsed: nullcontext(reached))

    return set_


@pytest.mark.parametrize(("verb", "past"), [("park", "parked"), ("wake", "woke")])
def test_karpenters_pools_run_the_job_of_the_schedule(
    karpenter: str, reach: Callable[[Jobs], None], verb: str, past: str
) -> None:
    cluster = Jobs({}, {"active": 1}, COMPLETE)
    reach(cluster)
    done = call(verb, karpenter, *["--no-wait"] * (verb == "wake"))
    job = f"tandem-parking-{verb}-now-x"
    assert (done.returncode, done.stdout) == (0, f"Job {job} {past} the models. Karpenter's nodes follow.\n")
    assert done.stderr == f"Waiting for job {job}\n"
    assert cluster.started == [(f"tandem-parking-{verb}", "ollama")]
    assert call(verb, karpenter, "--json").json == {
        "schema_version": 1,
        "stack": "timeslice",
        "groups": [],
        "job": job,
    }


@pytest.mark.parametrize("words", ["park", "wake --no-wait"])
@pytest.mark.parametrize("keys", ["", "  aws:allowedAccountIds: ['999999999999']\n"])
def test_karpenters_pools_are_left_alone_in_an_account_that_the_file_excludes(
    karpenter: str, reach: Callable[[Jobs], None], emulated: Emulated, words: str, keys: str
) -> None:
    cluster = Jobs(COMPLETE)
    reach(cluster)
    path = Path(karpenter)
    path.write_text(path.read_text().replace("config:\n", f"config:\n{keys}"))
    verb, *options = words.split()
    done = call(verb, karpenter, *options)
    touched = bool(cluster.started)
    if keys:
        assert (done.returncode, touched, emulated.calls) == (2, False, ["GetCallerIdentity"])
        assert done.stderr.startswith("error: account 123456789012 is not in `aws:allowedAccountIds` (999999999999)")
    else:
        # Nothing of this stack needs the credentials of an account.
        assert (done.returncode, touched, emulated.calls) == (0, True, [])


@pytest.mark.parametrize("state", [{"conditions": [{"type": "Failed", "status": "True"}]}, {"active": 1}])
def test_a_job_that_fails_or_never_ends_says_where_its_log_is(
    karpenter: str, reach: Callable[[Jobs], None], state: dict[str, Any]
) -> None:
    reach(Jobs(state))
    done = call("park", karpenter)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: job tandem-parking-park-now-x did not park the models.")
    assert "kubectl --namespace ollama logs job/tandem-parking-park-now-x" in last


def test_wake_hands_its_kubeconfig_to_verify(
    karpenter: str, reach: Callable[[Jobs], None], verified: list[argparse.Namespace]
) -> None:
    reach(Jobs(COMPLETE))
    call("wake", karpenter, "--kubeconfig", "k.yaml", "--context", "c")
    call("wake", karpenter)
    assert [(one.kubeconfig, one.context) for one in verified] == [("k.yaml", "c"), (None, None)]


def test_in_a_cluster_that_the_stack_uses_only_its_own_groups_are_its_pools(
    creation: Creation, cleaning: Cleaning
) -> None:
    creation.EKS_clusters({"team": "platform"}, name="platform")
    creation.node_groups({"tandem:project": "tandem", "tandem:stack": "other"}, "platform", **POOL)
    ours = creation.node_groups(OURS, "platform", **POOL)
    found = parked_nodes.find_pools(cleaning.account, "timeslice", existing="platform")
    assert [f"{one.cluster}/{one.name}" for one in found] == [ours]


def test_failures_are_read_from_the_queue_newest_first_and_stay_there(creation: Creation, cleaning: Cleaning) -> None:
    queue = schedules(creation)
    for size, code in ((0, "Throttling"), (2, "ResourceInUseException")):
        sent = {"ClusterName": CLUSTER, "NodegroupName": "gpus", "ScalingConfig": {"MinSize": 0, "DesiredSize": size}}
        said = {"ERROR_CODE": code, "ERROR_MESSAGE": "not in Active State"}
        attributes = {name: {"DataType": "String", "StringValue": text} for name, text in said.items()}
        creation.sqs.send_message(QueueUrl=queue, MessageBody=json.dumps(sent), MessageAttributes=attributes)
    messages: Any = sqs_backends[ACCOUNT][REGION].queues[queue.rpartition("/")[2]].messages
    first, second = messages
    second.sent_timestamp = first.sent_timestamp + 60_000
    for _ in range(2):
        found = parked_nodes.find_failures(cleaning.account, "timeslice")
        assert [(one.verb, one.group, one.code, one.message) for one in found] == [
            ("wake", "gpus", "ResourceInUseException", "not in Active State"),
            ("park", "gpus", "Throttling", "not in Active State"),
        ]
        # SQS gives milliseconds (API_Message).
        assert [one.at.timestamp() for one in found] == [one.sent_timestamp / 1000 for one in (second, first)]


@pytest.mark.parametrize("body", ["hello", "[1]", "{}", "[" * 100_000, '{"NodegroupName": 3, "ScalingConfig": "none"}'])
def test_messages_that_are_no_calls_are_skipped(creation: Creation, cleaning: Cleaning, body: str) -> None:
    creation.sqs.send_message(QueueUrl=schedules(creation), MessageBody=body)
    assert parked_nodes.find_failures(cleaning.account, "timeslice") == []
