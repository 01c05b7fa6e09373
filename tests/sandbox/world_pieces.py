"""Pieces of an account for tests of the emulated cloud's rules."""

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import pytest

from components.device_plugin_sharing import discovery_chart
from sandbox.cloud.eks.kubeconfig import kubeconfig
from sandbox.world import CloudError, Entity, tokens
from tests.sandbox.outside import Outside
from tests.sandbox.user_data_pieces import in_base64

NODE_POLICIES = ("AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly")
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
GPU_LABELS = {"nvidia.com/gpu.present": "true", "nvidia.com/device-plugin.config": "shared", "tandem/pool": "gpu"}
SHARED = {"version": "v1", "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}}}


class Account:
    """An emulated cloud that never waits, with short methods that create resources."""

    def __init__(self, world: Outside | None = None) -> None:
        self.world = world or Outside(patience=0.0)
        self.provider: dict[str, Any] = {"region": "us-east-1"}
        self.subnets: list[str] = []
        self.vpc = ""

    def copied(self) -> Self:
        """The same account with a copy of its cloud."""
        same = copy.copy(self)
        same.world, same.provider = self.world.copied(), dict(self.provider)
        return same

    def make(self, token: str, logical: str = "x", /, **inputs: Any) -> str:
        """Checks and creates; returns the id."""
        checked = self.world.check(token, logical, inputs, None)
        return self.world.create(token, logical, checked, self.provider)[0]

    def drop(self, token: str, identity: str) -> None:
        self.world.delete(token, identity)

    def outputs(self, token: str, identity: str) -> dict[str, Any]:
        found = self.world.read(token, identity)
        assert found is not None
        return found[1]

    def change(self, token: str, identity: str, **inputs: Any) -> dict[str, Any]:
        found = self.world.read(token, identity)
        assert found is not None
        return self.world.update(token, identity, {**found[0], **inputs})

    def network(self, public: bool = True, routed: bool = True) -> None:
        """A VPC with a subnet in each of two zones, and a route to the internet."""
        self.vpc = self.make(tokens.VPC, cidrBlock="10.0.0.0/16")
        self.gateway = self.make(tokens.GATEWAY, vpcId=self.vpc)
        self.table = self.make(tokens.ROUTE_TABLE, vpcId=self.vpc)
        if routed:
            self.make(tokens.ROUTE, routeTableId=self.table, destinationCidrBlock="0.0.0.0/0", gatewayId=self.gateway)
        for zone in "ab":
            where = {"availabilityZone": f"us-east-1{zone}", "cidrBlock": f"10.0.{ord(zone)}.0/24"}
            self.subnets.append(self.make(tokens.SUBNET, zone, vpcId=self.vpc, mapPublicIpOnLaunch=public, **where))
            self.make(tokens.ASSOCIATION, zone, subnetId=self.subnets[-1], routeTableId=self.table)

    def nat(self) -> str:
        """A NAT gateway with an address of its own, in the first subnet."""
        if not self.subnets:
            self.network()
        self.address = self.make(tokens.ADDRESS, domain="vpc")
        return self.make(tokens.NAT, subnetId=self.subnets[0], allocationId=self.address)

    def role(self, name: str, *policies: str) -> str:
        """A role with AWS's policies; returns its ARN."""
        role = self.make(tokens.ROLE, name, name=name)
        for policy in policies:
            self.make(
                tokens.ATTACHED_POLICY, f"{name}-{policy}", role=role, policyArn=f"arn:aws:iam::aws:policy/{policy}"
            )
        return str(self.outputs(tokens.ROLE, role)["arn"])

    def cluster(self, *, plugin: bool = True, **inputs: Any) -> str:
        """A control plane in a network of its own, with vpc-cni; the provider then talks to it."""
        if not self.subnets:
            self.network()
        arn = self.role("control-plane", "AmazonEKSClusterPolicy")
        where = {"subnetIds": self.subnets}
        values = {
            "name": "c",
            "roleArn": arn,
            "version": "1.36",
            "bootstrapSelfManagedAddons": False,
            "vpcConfig": where,
        }
        cluster = self.make(tokens.CLUSTER, "c", **values | inputs)
        config = kubeconfig(self.outputs(tokens.CLUSTER, cluster))
        self.provider = {"region": "us-east-1", "kubeconfig": json.dumps(config)}
        if plugin:
            self.make(tokens.ADDON, "vpc-cni", clusterName=cluster, addonName="vpc-cni")
        return cluster

    def nodes(self, name: str = "system", *policies: str, count: int = 1, **inputs: Any) -> str:
        """A node group with a role of its own."""
        arn = self.role(f"{name}-nodes", *(policies or NODE_POLICIES))
        scaling = {"minSize": 0, "desiredSize": count, "maxSize": 9}
        values = {"nodeGroupName": name, "clusterName": "c", "nodeRoleArn": arn, "scalingConfig": scaling}
        return self.make(tokens.NODE_GROUP, name, **{**values, "subnetIds": self.subnets, **inputs})

    def gpu_nodes(self, name: str = "gpu", **inputs: Any) -> str:
        return self.nodes(name, **{"instanceTypes": ["g4dn.xlarge"], "labels": GPU_LABELS, "taints": [TAINT]} | inputs)

    def started_with(self, user_data: str) -> dict[str, Any]:
        """The input of a node group whose new nodes start with this text."""
        template = self.make(tokens.TEMPLATE, userData=in_base64(user_data))
        return {"launchTemplate": {"id": template, "version": "1"}}

    def driver(self) -> str:
        """The EBS CSI driver with its role, which the agent gives it."""
        if self.world.read(tokens.ADDON, "c:eks-pod-identity-agent") is None:
            self.make(tokens.ADDON, "agent", clusterName="c", addonName="eks-pod-identity-agent")
        arn = self.role("driver", "AmazonEBSCSIDriverPolicyV2")
        identity = [{"roleArn": arn, "serviceAccount": "ebs-csi-controller-sa"}]
        return self.make(
            tokens.ADDON, "csi", clusterName="c", addonName="aws-ebs-csi-driver", podIdentityAssociations=identity
        )

    def volume(self, name: str = "d", **spec: Any) -> tuple[str, str, str]:
        """An EBS volume, its PersistentVolume, and the claim on it."""
        disk = self.make(tokens.VOLUME, availabilityZone="us-east-1a", size=10)
        given = spec or {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": disk}}
        volume = self.make(
            tokens.PERSISTENT_VOLUME, metadata=meta(name), spec={**given, "persistentVolumeReclaimPolicy": "Retain"}
        )
        claim = self.make(
            tokens.CLAIM,
            metadata=meta(name, namespace="default"),
            spec={"storageClassName": "", "volumeName": name},
        )
        return disk, volume, claim

    def release(self, name: str, chart: str, **values: Any) -> str:
        """A release in the namespace `kube-system`."""
        return self.make(tokens.RELEASE, name, name=name, namespace="kube-system", chart=chart, values=values)

    def discovery(self) -> str:
        """Node feature discovery, on which the plugin's own discovery and the operator depend."""
        if self.world.read(tokens.RELEASE, "kube-system/nfd") is None:
            self.release("nfd", "node-feature-discovery", **discovery_chart.values())
        return "kube-system/nfd"

    def device_plugin(self, **values: Any) -> str:
        self.discovery()
        config = {"config": {"default": "shared", "map": {"shared": json.dumps(SHARED)}}, "gfd": {"enabled": True}}
        return self.release("plugin", "nvidia-device-plugin", **{**config, **values})

    def gpu_operator(self, layout: dict[str, int], config: dict[str, Any], **values: Any) -> str:
        """The GPU Operator with one layout, `cut`, and one config of the plugin, `shared`."""
        self.discovery()
        layouts = {"mig-configs": {"cut": [{"devices": "all", "mig-enabled": True, "mig-devices": layout}]}}
        chosen = {
            "mig": {"strategy": ""},
            "migManager": {"config": {"data": {"config.yaml": json.dumps(layouts)}}},
            "devicePlugin": {"config": {"default": "shared", "data": {"shared": json.dumps(config)}}},
            "gfd": {"enabled": True},
            **values,
        }
        return self.release("gpu-operator", "gpu-operator", **chosen)

    def model(self, name: str = "m", *, skip_await: bool = False, **values: Any) -> str:
        """A release of the ollama chart that requests one share. Nothing remains of it if it fails."""
        gpu = {"gpu": {"enabled": True, "number": 1, "nvidiaResource": "nvidia.com/gpu"}}
        given = {
            "name": name,
            "namespace": "default",
            "chart": "ollama",
            "values": {"ollama": gpu, "nodeSelector": {"tandem/pool": "gpu"}, **values},
        }
        return self.make(tokens.RELEASE, name, **given, atomic=True, skipAwait=skip_await)

    def of(self, token: str, made_by: str | None = None) -> list[Entity]:
        return [one for one in self.world.entities() if one.type == token and made_by in (None, one.made_by)]


def meta(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


@contextmanager
def refused(code: str, words: str | None = None) -> Iterator[pytest.ExceptionInfo[CloudError]]:
    """Expects an error with that code, and checks that its rule names a source."""
    with pytest.raises(CloudError, match=words) as caught:
        yield caught
    assert caught.value.code == code
    assert str(caught.value) == f"{code}: {caught.value.message}"
    assert "/" in caught.value.source
