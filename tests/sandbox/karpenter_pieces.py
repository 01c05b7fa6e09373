"""A cluster in which Karpenter works, for tests of the emulated cloud's rules."""

from components.iam import document
from components.karpenter_gpu_pool.permissions import PARTS, Scope
from sandbox.world import tokens
from tests.sandbox.world_pieces import NODE_POLICIES, TAINT, Account, meta

ARN = "arn:aws:{}:us-east-1:123456789012:{}"


class Karpenter(Account):
    """A cluster in which Karpenter works, with two system nodes. Calls never wait."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster()
        self.nodes(count=2)
        for name in ("coredns", "eks-pod-identity-agent"):
            self.make(tokens.ADDON, name, clusterName="c", addonName=name)
        self.node_role = self.role("karpenters-nodes", *NODE_POLICIES)
        self.make(tokens.ACCESS_ENTRY, clusterName="c", principalArn=self.node_role, type="EC2_LINUX")
        controller_role = self.role("controller")
        scope = Scope(cluster="c", node_role_arn=self.node_role, queue_arn=ARN.format("sqs", "q"))
        self.attached = {}
        for part, statements in PARTS.items():
            policy = self.make(tokens.POLICY, part, name=part, policy=document(statements(scope)))
            self.attached[part] = self.make(tokens.ATTACHED_POLICY, part, role="controller", policyArn=policy)
        who = {"clusterName": "c", "namespace": "kube-system", "serviceAccount": "karpenter"}
        self.identity = self.make(tokens.POD_IDENTITY, **who, roleArn=controller_role)
        self.crds = self.release("karpenter-crd", "karpenter-crd")
        self.controller = self.controllers()
        self.device_plugin()

    def controllers(self) -> str:
        inputs = {"name": "karpenter", "namespace": "kube-system", "chart": "oci://x/karpenter", "skipCrds": True}
        return self.make(tokens.RELEASE, "karpenter", **inputs)

    def node_class(self) -> str:
        spec = {
            "role": "karpenters-nodes",
            "subnetSelectorTerms": [{"id": one} for one in self.subnets],
            "securityGroupSelectorTerms": [{"id": "sg-1"}],
        }
        return self.make(tokens.NODE_CLASS, metadata=meta("gpu"), spec=spec)

    def pool(self) -> str:
        wanted = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g4dn.xlarge"]}]
        template = {
            "metadata": {"labels": {"tandem/pool": "gpu", "nvidia.com/gpu.present": "true"}},
            "spec": {
                "nodeClassRef": {"name": "gpu"},
                "requirements": wanted,
                "taints": [{**TAINT, "effect": "NoSchedule"}],
            },
        }
        return self.make(tokens.NODE_POOL, metadata=meta("gpu"), spec={"template": template, "limits": {"nodes": "1"}})

    @property
    def own(self) -> list[str]:
        """Ids of Karpenter's instances."""
        return [one.id for one in self.of(tokens.INSTANCE, "karpenter")]
