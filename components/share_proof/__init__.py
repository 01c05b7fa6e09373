"""ShareProof: Jobs that succeed only if a node offers the expected shares and pods can use them as expected."""

from typing import Any, cast

import pulumi
import pulumi_kubernetes as k8s

from components.arguments import Given, Options, read_arguments
from components.containers import create_namespace
from components.mps_daemon import claim_directory
from components.network_policies import network_policy, to_proof
from components.share_proof.expectation import ShareExpectation, expectations, fingerprint, verified
from components.share_proof.jobs import (
    DEVICE_PLUGIN,
    GPU_OPERATOR,
    Manifest,
    PluginPods,
    ShareProofArgs,
    node_job,
    script_texts,
    security_level,
    shares_job,
)
from components.share_proof.waits import minutes
from sharing.hardware.gpus import find_gpu
from sharing.names import PROOF_LABEL, TOKEN, safe_name

__all__ = ["DEVICE_PLUGIN", "GPU_OPERATOR", "PluginPods", "ShareProof", "ShareProofArgs"]


class ShareProof(pulumi.ComponentResource):
    """Proves that the GPU shares are real. It runs again when mode, replicas, layout or GPU change.

    While it runs, no model can hold the shares. A failed proof fails the update, with the expected and the observed
    result. The next update repeats it.

    ```python
    from tandem import Mps, ShareProof, ShareProofArgs

    proof = ShareProof("proof", ShareProofArgs(sharing=Mps(replicas=2), gpu="t4", instance_types=["g4dn.xlarge"]))
    ```
    """

    verified_shares: pulumi.Output[dict[str, Any]]
    """The shares of one node, by resource, e.g. `{"nvidia.com/gpu": {"per_node": 2, …}}`. It resolves once they are
    proved.
    """

    def __init__(self, name: str, args: Given[ShareProofArgs] = None, opts: Options = None, **more: Any) -> None:
        args = read_arguments(ShareProofArgs, args, more)
        super().__init__(TOKEN.format("ShareProof"), name, None, opts)
        self._name, self._args = name, args
        expected = expectations(args.sharing, find_gpu(args.gpu), args.gpus_per_node, args.limits_mib)
        mark = fingerprint(expected)
        child, meta = pulumi.ResourceOptions(parent=self), k8s.meta.v1.ObjectMetaArgs
        namespace = create_namespace(f"{name}-namespace", args.namespace, security_level(args.sharing), child)
        scripts = k8s.core.v1.ConfigMap(
            f"{name}-scripts", metadata=meta(name="scripts", namespace=namespace), data=script_texts(), opts=child
        ).metadata.name
        # Only this account can access the Kubernetes API, and only to read nodes.
        reader = self._account("node-prober", namespace)
        self._may_get_nodes(reader)
        prober = self._account("share-prober", namespace)
        # Without it, the pods accept connections from the entire cluster.
        policy = network_policy(f"{name}-incoming", namespace, to_proof(), child)

        node = self._job(
            "node-job",
            meta(name=f"node-{mark}", namespace=namespace),
            node_job(expected, args, scripts, reader),
            policy,
        )
        self._daemon = self._claim_directory(namespace) if args.sharing.needs_node_daemon else None
        # While the old mode's plugin still runs, the pods would get its shares and fail. So they come after `node`.
        shares = [self._shares_job(each, mark, namespace, scripts, prober, node) for each in expected]
        self.verified_shares = pulumi.Output.all(*(job.status for job in (node, *shares))).apply(
            lambda _: {each.resource: verified(each) for each in expected}
        )
        self.register_outputs({"verifiedShares": self.verified_shares})

    def _shares_job(
        self,
        expected: ShareExpectation,
        mark: str,
        namespace: pulumi.Input[str],
        scripts: pulumi.Input[str],
        account: pulumi.Input[str],
        node: pulumi.Resource,
    ) -> k8s.batch.v1.Job:
        meta = k8s.meta.v1.ObjectMetaArgs
        share = safe_name(f"shares-{expected.resource.rpartition('/')[2]}", 40)
        service = k8s.core.v1.Service(
            f"{self._name}-{share}",
            metadata=meta(name=share, namespace=namespace),
            spec=k8s.core.v1.ServiceSpecArgs(
                # Headless: only gives each pod a DNS name, even before the pod is ready.
                cluster_ip="None",
                publish_not_ready_addresses=True,
                selector={PROOF_LABEL: share},
            ),
            opts=pulumi.ResourceOptions(parent=self),
        ).metadata.name
        job = f"{share}-{mark}"
        spec = shares_job(expected, self._args, job, share, service, scripts, account, self._daemon)
        return self._job(f"{share}-job", meta(name=job, namespace=namespace), spec, node)

    def _claim_directory(self, namespace: pulumi.Input[str]) -> pulumi.Output[str]:
        # Without the directory, no pod would start, and the Job would end after half an hour without a reason. A pod
        # that finds no daemon in it says so at once.
        return claim_directory(self._name, namespace, pulumi.ResourceOptions(parent=self), must_exist=False)

    def _account(self, role: str, namespace: pulumi.Input[str]) -> pulumi.Output[str]:
        account = k8s.core.v1.ServiceAccount(
            f"{self._name}-{role}",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=role, namespace=namespace),
            automount_service_account_token=False,
            opts=pulumi.ResourceOptions(parent=self),
        )
        return cast(pulumi.Output[str], account.metadata.name)

    def _may_get_nodes(self, account: pulumi.Input[str]) -> None:
        child, namespace = pulumi.ResourceOptions(parent=self), self._args.namespace
        # ClusterRoles have no namespace, so the name separates two proofs.
        meta = k8s.meta.v1.ObjectMetaArgs(name=f"{namespace}-node-prober")
        role = k8s.rbac.v1.ClusterRole(
            f"{self._name}-role",
            metadata=meta,
            rules=[k8s.rbac.v1.PolicyRuleArgs(api_groups=[""], resources=["nodes"], verbs=["get"])],
            opts=child,
        )
        k8s.rbac.v1.ClusterRoleBinding(
            f"{self._name}-binding",
            metadata=meta,
            role_ref=k8s.rbac.v1.RoleRefArgs(
                api_group="rbac.authorization.k8s.io", kind="ClusterRole", name=role.metadata.name
            ),
            subjects=[k8s.rbac.v1.SubjectArgs(kind="ServiceAccount", name=account, namespace=namespace)],
            opts=child,
        )

    def _job(
        self, part: str, meta: k8s.meta.v1.ObjectMetaArgs, spec: Manifest, needed: pulumi.Resource
    ) -> k8s.batch.v1.Job:
        """Registers a Job that is never updated. It is replaced if the expected shares or the taint change, or if it
        failed.
        """
        longer = minutes(spec["activeDeadlineSeconds"])
        meta.annotations = {"pulumi.com/replaceUnready": "true"}
        return k8s.batch.v1.Job(
            f"{self._name}-{part}",
            metadata=meta,
            spec=cast(Any, spec),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[needed],
                replacement_trigger=self._args.mode_taint,
                # Otherwise a new image or toleration would replace the Job, whose pods would wait for shares that
                # models hold.
                ignore_changes=["spec"],
                # The replacement can have the same name: after a failed proof, or if you undo a switch.
                delete_before_replace=True,
                custom_timeouts=pulumi.CustomTimeouts(create=longer, update=longer),
            ),
        )
