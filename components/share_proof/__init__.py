"""ShareProof: Jobs that succeed only when a node offers the expected shares, and pods on them get what they should."""

from dataclasses import asdict
from typing import Any, cast

import pulumi
import pulumi_kubernetes as k8s

from components.containers import pod_security
from components.network_policies import network_policy, to_proof
from components.share_proof.expectation import ShareExpectation, expectations, fingerprint
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
from sharing.gpus import find_gpu
from sharing.names import PROOF_LABEL, TOKEN, safe_name

__all__ = ["DEVICE_PLUGIN", "GPU_OPERATOR", "PluginPods", "ShareProof", "ShareProofArgs"]


class ShareProof(pulumi.ComponentResource):
    """Proves that the shares are real, again when mode, replicas, layout or GPU change. No model may hold them then.

    A failed proof fails the update with what was expected and what was found. The next update repeats it.

    ```python
    from tandem import Mps, ShareProof, ShareProofArgs

    proof = ShareProof("proof", ShareProofArgs(sharing=Mps(replicas=2), gpu="t4", instance_types=["g4dn.xlarge"]))
    ```
    """

    verified_shares: pulumi.Output[dict[str, Any]]
    """The shares of one node, by resource; known once they are proved."""

    def __init__(self, name: str, args: ShareProofArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(TOKEN.format("ShareProof"), name, None, opts)
        self._name, self._args = name, args
        expected = expectations(args.sharing, find_gpu(args.gpu), args.gpus_per_node)
        mark = fingerprint(expected)
        child, meta = pulumi.ResourceOptions(parent=self), k8s.meta.v1.ObjectMetaArgs
        again = pulumi.ResourceOptions(replacement_trigger=args.mode_taint)
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            metadata=meta(name=args.namespace, labels=pod_security(security_level(args.sharing))),
            opts=child,
        ).metadata.name
        scripts = k8s.core.v1.ConfigMap(
            f"{name}-scripts", metadata=meta(name="scripts", namespace=namespace), data=script_texts(), opts=child
        ).metadata.name
        # The only ones with access to the API, and to nothing but nodes.
        reader = self._account("node-prober", namespace)
        self._may_get_nodes(reader)
        prober = self._account("share-prober", namespace)
        # Pods that start before it listen to the whole cluster.
        policy = network_policy(f"{name}-incoming", namespace, to_proof(), child)

        node = self._job(
            "node-job",
            meta(name=f"node-{mark}", namespace=namespace),
            node_job(expected, args, scripts, reader),
            pulumi.ResourceOptions.merge(again, pulumi.ResourceOptions(parent=self, depends_on=[policy])),
        )
        # While a plugin of the old mode still runs, pods would get its shares and fail for it.
        after_node = pulumi.ResourceOptions.merge(again, pulumi.ResourceOptions(parent=self, depends_on=[node]))
        jobs = [node]
        jobs += [self._shares_job(one, mark, namespace, scripts, prober, after_node) for one in expected]
        self.verified_shares = pulumi.Output.all(*(job.status for job in jobs)).apply(
            lambda _: {one.resource: asdict(one) for one in expected}
        )
        self.register_outputs({"verifiedShares": self.verified_shares})

    def _shares_job(
        self,
        expected: ShareExpectation,
        mark: str,
        namespace: pulumi.Input[str],
        scripts: pulumi.Input[str],
        account: pulumi.Input[str],
        opts: pulumi.ResourceOptions,
    ) -> k8s.batch.v1.Job:
        meta = k8s.meta.v1.ObjectMetaArgs
        share = safe_name(f"shares-{expected.resource.rpartition('/')[2]}", 40)
        service = k8s.core.v1.Service(
            f"{self._name}-{share}",
            metadata=meta(name=share, namespace=namespace),
            spec=k8s.core.v1.ServiceSpecArgs(
                # No address of its own: it gives each pod a name, also before that is ready.
                cluster_ip="None",
                publish_not_ready_addresses=True,
                selector={PROOF_LABEL: share},
            ),
            opts=pulumi.ResourceOptions(parent=self),
        ).metadata.name
        job = f"{share}-{mark}"
        spec = shares_job(expected, self._args, job, share, service, scripts, account)
        return self._job(f"{share}-job", meta(name=job, namespace=namespace), spec, opts)

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
        # Roles of the cluster have no namespace: the name keeps two proofs apart.
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
        self, part: str, meta: k8s.meta.v1.ObjectMetaArgs, spec: Manifest, opts: pulumi.ResourceOptions
    ) -> k8s.batch.v1.Job:
        """A Job that stays as it was made until the expected shares or the taint change, or it has failed."""
        longer = minutes(spec["activeDeadlineSeconds"])
        meta.annotations = {"pulumi.com/replaceUnready": "true"}
        # A new image or taint would replace the Job, and its pods would wait for shares that the models hold.
        once = pulumi.ResourceOptions(
            ignore_changes=["spec"],
            # The next one may have the same name: of a switch that is taken back, or of a proof that failed.
            delete_before_replace=True,
            custom_timeouts=pulumi.CustomTimeouts(create=longer, update=longer),
        )
        return k8s.batch.v1.Job(
            f"{self._name}-{part}",
            metadata=meta,
            spec=cast(Any, spec),
            opts=pulumi.ResourceOptions.merge(opts, once),
        )
