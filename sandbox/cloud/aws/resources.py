"""Outputs of AWS's resources: ids, ARNs, and the computed attributes that stacks or rules use."""

import base64
from typing import Any

from sandbox.cloud.aws.places import Place
from sandbox.cloud.identity import ACCOUNT, autonamed, digest
from sandbox.cloud.protocol import Creation, Rule, Values

Computed = dict[str, Any]

DEFAULT_KUBERNETES = "1.36"
"""EKS's default Kubernetes version."""


def _place(creation: Creation) -> Place:
    return Place.of(creation.provider)


def _common(creation: Creation) -> Computed:
    computed: Computed = {"region": _place(creation).region}
    tags = creation.inputs.get("tags")
    if tags is not None:
        computed["tagsAll"] = {**_place(creation).default_tags, **tags}
    return computed


def _identified(prefix: str, service: str = "", kind: str = "", **more: Any) -> Rule:
    """A rule for types whose id is `<prefix>-<17 hex>`, with an ARN if service and kind are given."""

    def rule(creation: Creation) -> tuple[str, Values]:
        identity = f"{prefix}-{digest(creation.type, creation.name)}"
        arn = {"arn": _place(creation).arn(service, f"{kind}/{identity}")} if service else {}
        return identity, {**_common(creation), **arn, **more}

    return rule


def _named(service: str, kind: str) -> Rule:
    """A rule for types whose id is their name, given or generated."""

    def rule(creation: Creation) -> tuple[str, Values]:
        name = autonamed(creation.name, creation.inputs.get("name"))
        return name, {**_common(creation), "name": name, "arn": _place(creation).arn(service, f"{kind}{name}")}

    return rule


def _joined(separator: str, *keys: str) -> Rule:
    """A rule for types whose id consists of inputs."""

    def rule(creation: Creation) -> tuple[str, Values]:
        return separator.join(str(creation.inputs.get(key)) for key in keys), _common(creation)

    return rule


# ec2


def _route(creation: Creation) -> tuple[str, Values]:
    table, to = (creation.inputs.get(key) for key in ("routeTableId", "destinationCidrBlock"))
    return f"r-{table}{digest(str(to), length=10)}", _common(creation)


def _template(creation: Creation) -> tuple[str, Values]:
    identity, computed = _identified("lt", "ec2", "launch-template", latestVersion=1)(creation)
    return identity, {**computed, "name": autonamed(creation.name, creation.inputs.get("name"))}


# iam


def _iam(creation: Creation, kind: str) -> tuple[str, Computed]:
    """Name and global ARN, because IAM has no regions."""
    name = autonamed(creation.name, creation.inputs.get("name"))
    tags = {"tagsAll": _common(creation)["tagsAll"]} if "tags" in creation.inputs else {}
    return name, {"name": name, "arn": _place(creation).arn("iam", f"{kind}/{name}", regional=False), **tags}


def _role(creation: Creation) -> tuple[str, Values]:
    return _iam(creation, "role")


def _policy(creation: Creation) -> tuple[str, Values]:
    _, computed = _iam(creation, "policy")
    return computed["arn"], computed


# eks


def _cluster(creation: Creation) -> tuple[str, Values]:
    inputs, place = creation.inputs, _place(creation)
    name = autonamed(creation.name, inputs.get("name"))
    key = digest("eks", name, length=32).upper()
    vpc = {
        **(inputs.get("vpcConfig") or {}),
        "clusterSecurityGroupId": f"sg-{digest('eks', name)}",
        "vpcId": f"vpc-{digest('eks vpc', name)}",
    }
    return name, {
        **_common(creation),
        "name": name,
        "arn": place.arn("eks", f"cluster/{name}"),
        "version": inputs.get("version") or DEFAULT_KUBERNETES,
        "endpoint": f"https://{key}.gr7.{place.region}.eks.{place.suffix}",
        "certificateAuthority": {"data": base64.b64encode(f"certificate authority of {name}".encode()).decode()},
        "vpcConfig": vpc,
        "status": "ACTIVE",
    }


def _node_group(creation: Creation) -> tuple[str, Values]:
    inputs, cluster = creation.inputs, str(creation.inputs.get("clusterName"))
    group = autonamed(creation.name, inputs.get("nodeGroupName"))
    unique = digest("node group", cluster, group, length=12)
    return f"{cluster}:{group}", {
        **_common(creation),
        "nodeGroupName": group,
        "arn": _place(creation).arn("eks", f"nodegroup/{cluster}/{group}/{unique}"),
        "status": "ACTIVE",
    }


def _pod_identity(creation: Creation) -> tuple[str, Values]:
    who = [str(creation.inputs.get(key)) for key in ("clusterName", "namespace", "serviceAccount")]
    identity = f"a-{digest(*who)}"
    return identity, {**_common(creation), "associationId": identity}


# Other services.


def _queue(creation: Creation) -> tuple[str, Values]:
    name, place = autonamed(creation.name, creation.inputs.get("name")), _place(creation)
    url = f"https://sqs.{place.region}.{place.suffix}/{ACCOUNT}/{name}"
    return url, {**_common(creation), "name": name, "arn": place.arn("sqs", name), "url": url}


def _budget(creation: Creation) -> tuple[str, Values]:
    name, place = autonamed(creation.name, creation.inputs.get("name")), _place(creation)
    own = {"name": name, "accountId": ACCOUNT, "arn": place.arn("budgets", f"budget/{name}", regional=False)}
    # Like IAM, AWS Budgets has no regions.
    common = {key: value for key, value in _common(creation).items() if key != "region"}
    return f"{ACCOUNT}:{name}", {**common, **own}


def _event_target(creation: Creation) -> tuple[str, Values]:
    target = autonamed(creation.name, creation.inputs.get("targetId"))
    return f"{creation.inputs.get('rule')}-{target}", {**_common(creation), "targetId": target}


def _schedule(creation: Creation) -> tuple[str, Values]:
    """Its id has the group's name, `default` if none is given."""
    group = str(creation.inputs.get("groupName") or "default")
    name = autonamed(creation.name, creation.inputs.get("name"))
    arn = _place(creation).arn("scheduler", f"schedule/{group}/{name}")
    return f"{group}/{name}", {**_common(creation), "name": name, "groupName": group, "arn": arn, "state": "ENABLED"}


def _schedule_group(creation: Creation) -> tuple[str, Values]:
    name, computed = _named("scheduler", "schedule-group/")(creation)
    return name, {**computed, "state": "ACTIVE"}


RULES: dict[str, Rule] = {
    "aws:ec2/vpc:Vpc": _identified("vpc", "ec2", "vpc"),
    "aws:ec2/subnet:Subnet": _identified("subnet", "ec2", "subnet"),
    "aws:ec2/internetGateway:InternetGateway": _identified("igw", "ec2", "internet-gateway"),
    "aws:ec2/natGateway:NatGateway": _identified("nat"),
    "aws:ec2/eip:Eip": _identified("eipalloc", "ec2", "elastic-ip"),
    "aws:ec2/routeTable:RouteTable": _identified("rtb", "ec2", "route-table"),
    "aws:ec2/routeTableAssociation:RouteTableAssociation": _identified("rtbassoc"),
    "aws:ec2/route:Route": _route,
    "aws:ec2/vpcEndpoint:VpcEndpoint": _identified("vpce", "ec2", "vpc-endpoint"),
    "aws:ec2/launchTemplate:LaunchTemplate": _template,
    "aws:ebs/volume:Volume": _identified("vol", "ec2", "volume"),
    "aws:iam/role:Role": _role,
    "aws:iam/policy:Policy": _policy,
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": _joined("/", "role", "policyArn"),
    "aws:eks/cluster:Cluster": _cluster,
    "aws:eks/nodeGroup:NodeGroup": _node_group,
    "aws:eks/addon:Addon": _joined(":", "clusterName", "addonName"),
    "aws:eks/accessEntry:AccessEntry": _joined(":", "clusterName", "principalArn"),
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": _joined("#", "clusterName", "principalArn", "policyArn"),
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": _pod_identity,
    "aws:cloudwatch/logGroup:LogGroup": _named("logs", "log-group:"),
    "aws:cloudwatch/eventRule:EventRule": _named("events", "rule/"),
    "aws:cloudwatch/eventTarget:EventTarget": _event_target,
    "aws:budgets/budget:Budget": _budget,
    "aws:scheduler/schedule:Schedule": _schedule,
    "aws:scheduler/scheduleGroup:ScheduleGroup": _schedule_group,
    "aws:sqs/queue:Queue": _queue,
    "aws:sqs/queuePolicy:QueuePolicy": _joined("", "queueUrl"),
}
