"""SpotJob: a batch Job on a share of a GPU that continues after its spot node was interrupted."""

import hashlib
from typing import Any, cast

import pulumi
import pulumi_kubernetes as k8s

from components.arguments import Given, Options, read_arguments
from components.containers import ROOT, create_namespace
from components.network_policies import network_policy, to_nobody
from components.spot_job.checkpoints import (
    BucketCheckpoints,
    Storage,
    VolumeCheckpoints,
    store_in_bucket,
    store_on_volume,
)
from components.spot_job.job import Manifest, SpotJobArgs, job_spec
from sharing.names import PROJECT, TOKEN, safe_name

__all__ = ["BucketCheckpoints", "SpotJob", "SpotJobArgs", "VolumeCheckpoints"]

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""Label with the name of a Job's LocalQueue (https://kueue.sigs.k8s.io/docs/tasks/run/jobs/)."""
MAX_NAME = 63
"""Longest name of a Job, whose pods have it as the value of a label."""
STARTED = {"pulumi.com/waitFor": "jsonpath={.metadata.uid}"}
"""Pulumi waits only until the Job exists.

`pulumi.com/skipAwait` would do that too, but it also skips the wait for the Job's deletion. Then a replacement fails,
because the old Job, which still saves its last checkpoint, has the same name (pulumi-kubernetes#3154;
provider/pkg/metadata/overrides.go, allowsSkipAwaitWithDelete).
"""
SUCCEEDED = {"pulumi.com/replaceUnready": "true"}
"""Pulumi waits until the Job has succeeded, which is its default, and replaces a failed Job."""
MARGIN_SECONDS = 600
"""Time that Pulumi waits longer than the Job's deadline, so that the Job can report its failure."""


class SpotJob(pulumi.ComponentResource):
    """A batch Job on a share or a slice of a GPU that continues after interruptions of its spot node.

    Its program saves checkpoints, also on SIGTERM, and starts from the last one. A change of the Job replaces it: the
    old program gets SIGTERM, and the new one starts after it has stopped.

    ```python
    from tandem import BucketCheckpoints, SpotJob, SpotJobArgs

    checkpoints = BucketCheckpoints(cluster_name="demo", bucket="my-checkpoints", prefix="train")
    args = SpotJobArgs(image="example.com/train:1", command=["python", "train.py"], checkpoints=checkpoints)
    job = SpotJob("train", args)
    ```
    """

    job_name: pulumi.Output[str]
    """Name of the Job."""
    namespace: pulumi.Output[str]
    """Namespace of the Job."""
    checkpoint_location: pulumi.Output[str | None]
    """The checkpoints' S3 URI, e.g. `s3://mine/train/`, or their directory in the pod."""

    def __init__(self, name: str, args: Given[SpotJobArgs] = None, opts: Options = None, **more: Any) -> None:
        args = read_arguments(SpotJobArgs, args, more)
        super().__init__(TOKEN.format("SpotJob"), name, None, opts)
        self._name, self._args, self._child = name, args, pulumi.ResourceOptions(parent=self)
        self._job_name = safe_name(name, MAX_NAME)
        level = "baseline" if args.user == ROOT else "restricted"
        namespace = args.namespace
        if namespace is None:
            namespace = create_namespace(f"{name}-namespace", self._job_name, level, self._child)
        account = k8s.core.v1.ServiceAccount(
            f"{name}-account",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=self._job_name, namespace=namespace),
            automount_service_account_token=False,
            opts=self._child,
        ).metadata.name
        # Without it, the pods accept connections from the entire cluster, so it must exist before them.
        policy = network_policy(f"{name}-incoming", namespace, to_nobody(self._job_name), self._child, self._job_name)
        storage = self._storage(namespace, account)
        spec = job_spec(args, account, storage, self._priority_class(namespace))
        job = self._job(namespace, spec, [policy, *storage.needs])

        self.job_name = job.metadata.name
        self.namespace = job.metadata.namespace
        self.checkpoint_location = pulumi.Output.from_input(storage.location)
        self.register_outputs(
            {
                "jobName": self.job_name,
                "namespace": self.namespace,
                "checkpointLocation": self.checkpoint_location,
            }
        )

    def _priority_class(self, namespace: pulumi.Input[str]) -> pulumi.Input[str]:
        """The class of the caller. By default one of the Job's own, which evicts no model.

        A pod without a class has priority 0, so it would take the share of a model of lower importance.
        """
        if self._args.priority_class is not None:
            return self._args.priority_class
        own = k8s.scheduling.v1.PriorityClass(
            f"{self._name}-priority",
            # PriorityClasses have no namespace. A dot cannot be part of the two names.
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=pulumi.Output.concat(PROJECT, "-", namespace, ".", self._job_name)
            ),
            value=0,
            preemption_policy="Never",
            description="A batch Job that waits for a free share.",
            opts=self._child,
        )
        return cast(pulumi.Output[str], own.metadata.name)

    def _storage(self, namespace: pulumi.Input[str], account: pulumi.Input[str]) -> Storage:
        name, tags, kept = f"{self._name}-checkpoints", self._args.tags, self._args.checkpoints
        if isinstance(kept, BucketCheckpoints):
            return store_in_bucket(name, kept, namespace, account, tags, self._child)
        if isinstance(kept, VolumeCheckpoints):
            return store_on_volume(name, kept, namespace, self._job_name, tags, self._child)
        return Storage()

    def _job(self, namespace: pulumi.Input[str], spec: Manifest, needs: list[pulumi.Resource]) -> k8s.batch.v1.Job:
        """Registers the Job. Any change of its spec or queue replaces it, also one that Kubernetes would accept."""
        args = self._args
        labels: dict[str, pulumi.Input[str]] = {} if args.queue is None else {QUEUE_LABEL: args.queue}
        longest = None if args.deadline_seconds is None else f"{args.deadline_seconds + MARGIN_SECONDS}s"
        return k8s.batch.v1.Job(
            f"{self._name}-job",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=self._job_name,
                namespace=namespace,
                labels=labels,
                annotations=SUCCEEDED if args.wait else STARTED,
            ),
            spec=cast(Any, spec),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=needs,
                # Kueue admits a Job by changing its spec. After a refresh, that must not replace the Job.
                ignore_changes=["spec"],
                replacement_trigger=pulumi.Output.json_dumps([spec, labels]).apply(_digest),
                # The new Job has the same name.
                delete_before_replace=True,
                custom_timeouts=pulumi.CustomTimeouts(create=longest, update=longest) if args.wait else None,
            ),
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
