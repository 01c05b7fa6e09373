"""What AWS returns once a resource is there: ids, ARNs and the computed attributes that programs pass on."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from sandbox.cloud.aws.places import Place
from sandbox.cloud.identity import ACCOUNT, CREATED_AT, autonamed, digest
from sandbox.cloud.protocol import Creation, Rule, Values

Computed = dict[str, Any]

# What EKS and EC2 fill in where a program says nothing.
DEFAULT_KUBERNETES = "1.36"
SERVICE_CIDR = "172.20.0.0/16"


def _place(creation: Creation) -> Place:
    """Where a resource is: its own region (aws 7), or its provider's."""
    return Place.of(creation.inputs.get("region"), creation.provider)


def _identified(prefix: str, service: str = "", kind: str = "", *more: Callable[[Creation, str], Computed]) -> Rule:
    """A rule for types whose id is `<prefix>-<17 hex>`, with an ARN where a service and a kind are given."""

    def rule(creation: Creation) -> tuple[str, Values]:
        identity = f"{prefix}-{digest(creation.type, creation.name)}"
        computed: Computed = _common(creation)
        if service:
            computed["arn"] = _place(creation).arn(service, f"{kind}/{identity}")
        for extra in more:
            computed |= extra(creation, identity)
        return identity, computed

    return rule


def _common(creation: Creation) -> Computed:
    computed: Computed = {"region": _place(creation).region}
    tags = creation.inputs.get("tags")
    if tags is not None:
        computed["tagsAll"] = {**_place(creation).default_tags, **tags}
    return computed


def _owned(creation: Creation, identity: str) -> Computed:
    return {"ownerId": ACCOUNT}


def _address(creation: Creation, first: str) -> str:
    number = int(digest(creation.type, creation.name, length=4), 16)
    return f"{first}.{number // 256}.{number % 256}"


# ec2


def _vpc(creation: Creation, identity: str) -> Computed:
    def default(prefix: str) -> str:
        return f"{prefix}-{digest(identity, prefix)}"

    return {
        "enableDnsSupport": creation.inputs.get("enableDnsSupport", True),
        "defaultSecurityGroupId": default("sg"),
        "defaultRouteTableId": default("rtb"),
        "mainRouteTableId": default("rtb"),
        "defaultNetworkAclId": default("acl"),
        "dhcpOptionsId": default("dopt"),
    }


def _subnet(creation: Creation, identity: str) -> Computed:
    place = _place(creation)
    zone = creation.inputs.get("availabilityZone") or f"{place.region}a"
    return {"availabilityZone": zone, "availabilityZoneId": place.zone_id(zone)}


def _nat(creation: Creation, identity: str) -> Computed:
    return {
        "networkInterfaceId": f"eni-{digest(identity)}",
        "privateIp": _address(creation, "10.0"),
        "publicIp": _address(creation, "198.51"),
    }


def _eip(creation: Creation, identity: str) -> Computed:
    return {"allocationId": identity, "publicIp": _address(creation, "198.51")}


def _route(creation: Creation) -> tuple[str, Values]:
    table = str(creation.inputs.get("routeTableId"))
    to = creation.inputs.get("destinationCidrBlock") or creation.inputs.get("destinationIpv6CidrBlock") or ""
    return f"r-{table}{digest(str(to), length=10)}", {**_common(creation), "state": "active", "origin": "CreateRoute"}


def _endpoint(creation: Creation, identity: str) -> Computed:
    kind = creation.inputs.get("vpcEndpointType") or "Gateway"
    computed: Computed = {"state": "available", "vpcEndpointType": kind, "ownerId": ACCOUNT}
    if kind == "Gateway":
        return {**computed, "prefixListId": f"pl-{digest(identity, length=8)}"}
    subnets = creation.inputs.get("subnetIds") or []
    return {**computed, "networkInterfaceIds": [f"eni-{digest(identity, str(subnet))}" for subnet in subnets]}


def _named(creation: Creation, identity: str) -> Computed:
    return {"name": autonamed(creation.name, creation.inputs.get("name"))}


def _versions(creation: Creation, identity: str) -> Computed:
    return {"latestVersion": 1, "defaultVersion": 1}


def _volume(creation: Creation, identity: str) -> Computed:
    kind = creation.inputs.get("type") or "gp2"
    speed = {"iops": 3000, "throughput": 125} if kind == "gp3" else {}
    return {"type": kind, "createTime": CREATED_AT, **speed}


# iam


def _iam(kind: str, prefix: str, unique: str) -> Callable[[Creation], tuple[str, Computed]]:
    """A rule for IAM's named types: global ARN with the path, a unique id with IAM's prefix."""

    def rule(creation: Creation) -> tuple[str, Computed]:
        name = autonamed(creation.name, creation.inputs.get("name"))
        path = creation.inputs.get("path") or "/"
        arn = _place(creation).arn("iam", f"{kind}{path}{name}", regional=False)
        tags = {"tagsAll": _common(creation)["tagsAll"]} if "tags" in creation.inputs else {}
        identifier = prefix + digest(creation.type, creation.name).upper()
        return name, {"name": name, "arn": arn, "path": path, unique: identifier, "createDate": CREATED_AT, **tags}

    return rule


def _policy(creation: Creation) -> tuple[str, Values]:
    _, computed = _iam("policy", "ANPA", "policyId")(creation)
    return computed["arn"], {key: value for key, value in computed.items() if key != "createDate"}


def _attachment(creation: Creation) -> tuple[str, Values]:
    return f"{creation.inputs.get('role')}/{creation.inputs.get('policyArn')}", {}


# eks


def _cluster(creation: Creation) -> tuple[str, Values]:
    inputs, place = creation.inputs, _place(creation)
    name = autonamed(creation.name, inputs.get("name"))
    key = digest("eks", name, length=32).upper()
    network = inputs.get("vpcConfig") or {}
    vpc = {
        "endpointPublicAccess": True,
        "endpointPrivateAccess": False,
        "publicAccessCidrs": ["0.0.0.0/0"],
        **network,
        "clusterSecurityGroupId": f"sg-{digest('eks', name)}",
        "vpcId": f"vpc-{digest('eks vpc', name)}",
    }
    issuer = f"https://oidc.eks.{place.region}.{place.suffix}/id/{key}"
    return name, {
        **_common(creation),
        "name": name,
        "arn": place.arn("eks", f"cluster/{name}"),
        "version": inputs.get("version") or DEFAULT_KUBERNETES,
        "endpoint": f"https://{key}.gr7.{place.region}.eks.{place.suffix}",
        "certificateAuthority": {"data": base64.b64encode(f"certificate authority of {name}".encode()).decode()},
        "identities": [{"oidcs": [{"issuer": issuer}]}],
        "vpcConfig": vpc,
        "kubernetesNetworkConfig": {
            "ipFamily": "ipv4",
            "serviceIpv4Cidr": SERVICE_CIDR,
            **(inputs.get("kubernetesNetworkConfig") or {}),
        },
        "platformVersion": "eks.1",
        "status": "ACTIVE",
        "createdAt": CREATED_AT,
    }


def _node_group(creation: Creation) -> tuple[str, Values]:
    inputs, cluster = creation.inputs, str(creation.inputs.get("clusterName"))
    group = autonamed(creation.name, inputs.get("nodeGroupName"))
    unique = digest("node group", cluster, group, length=12)
    return f"{cluster}:{group}", {
        **_common(creation),
        "nodeGroupName": group,
        "arn": _place(creation).arn("eks", f"nodegroup/{cluster}/{group}/{unique}"),
        "amiType": inputs.get("amiType") or "AL2023_x86_64_STANDARD",
        "capacityType": inputs.get("capacityType") or "ON_DEMAND",
        "resources": [{"autoscalingGroups": [{"name": f"eks-{group}-{unique}"}], "remoteAccessSecurityGroupId": ""}],
        "status": "ACTIVE",
    }


def _addon(creation: Creation) -> tuple[str, Values]:
    cluster, addon = creation.inputs.get("clusterName"), creation.inputs.get("addonName")
    unique = digest("addon", str(cluster), str(addon), length=12)
    return f"{cluster}:{addon}", {
        **_common(creation),
        "arn": _place(creation).arn("eks", f"addon/{cluster}/{addon}/{unique}"),
        "addonVersion": creation.inputs.get("addonVersion") or f"v{DEFAULT_KUBERNETES}.0-eksbuild.1",
        "createdAt": CREATED_AT,
        "modifiedAt": CREATED_AT,
    }


def _access_entry(creation: Creation) -> tuple[str, Values]:
    cluster, principal = creation.inputs.get("clusterName"), str(creation.inputs.get("principalArn"))
    who = principal.rpartition(":")[2]
    unique = digest("access entry", str(cluster), principal, length=12)
    return f"{cluster}:{principal}", {
        **_common(creation),
        "accessEntryArn": _place(creation).arn("eks", f"access-entry/{cluster}/{who}/{unique}"),
        "type": creation.inputs.get("type") or "STANDARD",
        "userName": creation.inputs.get("userName") or principal,
        "kubernetesGroups": creation.inputs.get("kubernetesGroups") or [],
        "createdAt": CREATED_AT,
        "modifiedAt": CREATED_AT,
    }


def _access_policy(creation: Creation) -> tuple[str, Values]:
    inputs = creation.inputs
    identity = f"{inputs.get('clusterName')}#{inputs.get('principalArn')}#{inputs.get('policyArn')}"
    return identity, {"associatedAt": CREATED_AT, "modifiedAt": CREATED_AT, "region": _place(creation).region}


def _pod_identity(creation: Creation) -> tuple[str, Values]:
    inputs = creation.inputs
    who = [str(inputs.get(key)) for key in ("clusterName", "namespace", "serviceAccount")]
    identity = f"a-{digest(*who)}"
    arn = _place(creation).arn("eks", f"podidentityassociation/{who[0]}/{identity}")
    return identity, {**_common(creation), "associationId": identity, "associationArn": arn}


# the rest


def _log_group(creation: Creation) -> tuple[str, Values]:
    name = autonamed(creation.name, creation.inputs.get("name"))
    arn = _place(creation).arn("logs", f"log-group:{name}")
    return name, {**_common(creation), "name": name, "arn": arn}


def _queue(creation: Creation) -> tuple[str, Values]:
    name, place = autonamed(creation.name, creation.inputs.get("name")), _place(creation)
    url = f"https://sqs.{place.region}.{place.suffix}/{ACCOUNT}/{name}"
    return url, {**_common(creation), "name": name, "arn": place.arn("sqs", name), "url": url}


def _queue_policy(creation: Creation) -> tuple[str, Values]:
    return str(creation.inputs.get("queueUrl")), {"region": _place(creation).region}


def _event_rule(creation: Creation) -> tuple[str, Values]:
    name = autonamed(creation.name, creation.inputs.get("name"))
    return name, {**_common(creation), "name": name, "arn": _place(creation).arn("events", f"rule/{name}")}


def _event_target(creation: Creation) -> tuple[str, Values]:
    target = autonamed(creation.name, creation.inputs.get("targetId"))
    return f"{creation.inputs.get('rule')}-{target}", {"targetId": target, "region": _place(creation).region}


RULES: dict[str, Rule] = {
    "aws:ec2/vpc:Vpc": _identified("vpc", "ec2", "vpc", _owned, _vpc),
    "aws:ec2/subnet:Subnet": _identified("subnet", "ec2", "subnet", _owned, _subnet),
    "aws:ec2/internetGateway:InternetGateway": _identified("igw", "ec2", "internet-gateway", _owned),
    "aws:ec2/natGateway:NatGateway": _identified("nat", "", "", _nat),
    "aws:ec2/eip:Eip": _identified("eipalloc", "ec2", "elastic-ip", _eip),
    "aws:ec2/routeTable:RouteTable": _identified("rtb", "ec2", "route-table", _owned),
    "aws:ec2/routeTableAssociation:RouteTableAssociation": _identified("rtbassoc"),
    "aws:ec2/route:Route": _route,
    "aws:ec2/vpcEndpoint:VpcEndpoint": _identified("vpce", "ec2", "vpc-endpoint", _endpoint),
    "aws:ec2/launchTemplate:LaunchTemplate": _identified("lt", "ec2", "launch-template", _named, _versions),
    "aws:ebs/volume:Volume": _identified("vol", "ec2", "volume", _volume),
    "aws:iam/role:Role": _iam("role", "AROA", "uniqueId"),
    "aws:iam/policy:Policy": _policy,
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": _attachment,
    "aws:eks/cluster:Cluster": _cluster,
    "aws:eks/nodeGroup:NodeGroup": _node_group,
    "aws:eks/addon:Addon": _addon,
    "aws:eks/accessEntry:AccessEntry": _access_entry,
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": _access_policy,
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": _pod_identity,
    "aws:cloudwatch/logGroup:LogGroup": _log_group,
    "aws:cloudwatch/eventRule:EventRule": _event_rule,
    "aws:cloudwatch/eventTarget:EventTarget": _event_target,
    "aws:sqs/queue:Queue": _queue,
    "aws:sqs/queuePolicy:QueuePolicy": _queue_policy,
}
