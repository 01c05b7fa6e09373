"""Judges the tags of AWS resources: the user's, together with those that this program and controllers add to them."""

import re
from collections.abc import Collection, Iterator, Mapping

from sharing.names import EBS_CSI_TAG, TAG_PROJECT, TAG_STACK
from sharing.problems import ASIDE, LIMIT, Problem, foreign_letters

MOST = 50
"""Tags on a resource, without AWS's own (`aws:…`). Source: botocore 1.44.5, eks `TagMap` and iam `tagListType`."""
MOST_KEY, MOST_VALUE = 128, 256
"""Characters. Source: the same models, `TagKey` and `TagValue`, `tagKeyType` and `tagValueType`."""
_NOT_ALLOWED = re.compile(r"[^\w .:/=+@-]")
"""As in iam `tagKeyType` and logs `TagKey` of botocore 1.44.5, but of all spaces only U+0020."""
_CHARACTERS = "letters, digits, spaces or `.:/=+@-_`"

_OF_THE_DRIVER = "the EBS driver reserves"
_OF_KARPENTER = "Karpenter reserves"
_OF_THE_NETWORK = "the VPC CNI reserves"
RESERVED = {
    # "or any upper or lowercase combination of such as a prefix for either keys or values"
    # (docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-eks-accessentry-tag.html).
    "aws:": "AWS reserves",
    "tandem:": "this program reserves",
    "eks:": "EKS reserves",
    # aws-ebs-csi-driver 429e202 (2026-08-19), pkg/driver/validation.go: with one of these the driver does not start.
    "kubernetes.io": _OF_THE_DRIVER,
    "ebs.csi.aws.com/": _OF_THE_DRIVER,
    "CSIVolumeName": _OF_THE_DRIVER,
    "CSIVolumeSnapshotName": _OF_THE_DRIVER,
    # pkg/driver/controller.go there; cloud-provider-aws takes a resource with another value for another cluster's.
    "KubernetesCluster": "names the cluster that owns a resource",
    # karpenter-provider-aws 1.14.1, pkg/apis/v1/ec2nodeclass.go.
    "karpenter.sh/": _OF_KARPENTER,
    "karpenter.k8s.aws/": _OF_KARPENTER,
    # amazon-vpc-cni-k8s b521883 (2026-08-20), pkg/awsutils/awsutils.go.
    "cluster.k8s.amazonaws.com/": _OF_THE_NETWORK,
    "node.k8s.amazonaws.com/": _OF_THE_NETWORK,
}
"""Prefixes of keys that a user cannot write in any spelling, each with the reason."""

NODE = (
    "Name",
    # Tags of a node of a managed node group in public listings of `describe-tags`; its `aws:…` do not count.
    *("eks:cluster-name", "eks:nodegroup-name", "kubernetes.io/cluster/{}"),
    *("k8s.io/cluster-autoscaler/enabled", "k8s.io/cluster-autoscaler/{}"),
)
"""Keys on a node besides the user's and the stack's.

Those on a node of Karpenter are as many: `Name`, `karpenter.sh/nodeclaim`, `karpenter.sh/nodepool`,
`karpenter.k8s.aws/ec2nodeclass`, `eks:eks-cluster-name`, `kubernetes.io/cluster/…` (karpenter-provider-aws 1.14.1,
pkg/utils/utils.go `GetTags`, and pkg/controllers/nodeclaim/tagging/controller.go).
"""
VOLUME = ("Name", EBS_CSI_TAG)
"""Keys on a volume that this program creates."""
CLAIMED_VOLUME = (
    *VOLUME,
    # aws-ebs-csi-driver 429e202, pkg/driver/controller.go `CreateVolume`. EKS's add-on sets `--k8s-tag-cluster-id` and
    # `--extra-create-metadata`.
    *("CSIVolumeName", "KubernetesCluster", "kubernetes.io/cluster/{}", "ebs.csi.aws.com/cluster-name"),
    *(f"kubernetes.io/created-for/{what}" for what in ("pv/name", "pvc/name", "pvc/namespace")),
)
"""Keys on a volume that the EBS driver creates for a claim."""
STACK = (TAG_PROJECT, TAG_STACK)
"""Keys on every resource of a stack."""
MOST_OF_A_STACK = MOST - len({*STACK, *NODE})
"""Tags that a user can write for a stack. No other resource of it has more of its own than a node."""


def judge_tags(given: Mapping[str, Mapping[str, str]], added: Collection[str]) -> Iterator[Problem]:
    """Errors in the user's tags. `given` has each mapping of them by its path, the one that takes precedence last.

    `added` are the other keys on the resource that gets most of them.
    """
    spelled = {"name": ("Name", "")}
    for path, tags in given.items():
        for key, value in tags.items():
            if wrong := _wrong_key(key):
                yield Problem(f"{path}.{key}", "", *wrong)
            if problem := _judge_value(f"{path}.{key}", value):
                yield problem
            other, home = spelled.setdefault(key.lower(), (key, path))
            if other != key:
                # github.com/aws/aws-cdk/issues/26253: IAM refuses a role with both.
                whose = f"of `{home}`" if home else "of this program"
                rule = f"differs from `{other}` {whose} only in case, which IAM does not see"
                yield Problem(f"{path}.{key}", "", rule, "Keep one of the two." if home else "Write another key.")
    yield from _judge_count(given, added)


def _judge_count(given: Mapping[str, Mapping[str, str]], added: Collection[str]) -> Iterator[Problem]:
    excess = len(_keys(given) | {*added}) - MOST
    if excess > 0:
        most = len(_keys(given)) - excess
        fix = f"AWS allows {MOST} on a resource{_of_others(added)}. Remove {excess}."
        yield Problem(_last(given), _count(given), f"must have at most {most} entries", fix, LIMIT)


def warn_of_claimed_volumes(given: Mapping[str, Mapping[str, str]]) -> Iterator[Problem]:
    """Warns of tags that leave too little room for those of a volume that the EBS driver creates for a claim."""
    count, room = len(_keys(given)), MOST - len({*STACK, *CLAIMED_VOLUME})
    if room < count <= MOST_OF_A_STACK:
        fix = (
            f"AWS allows {MOST} on a resource, and the EBS driver adds its own. Keep {room} if your pods claim volumes."
        )
        tags = f"{count} tags, with those of {others}," if (others := _others(given)) else f"{count} tags"
        yield Problem(_last(given), tags, "make volumes for claims impossible", fix)


def _keys(given: Mapping[str, Mapping[str, str]]) -> set[str]:
    return {key for tags in given.values() for key in tags}


def _last(given: Mapping[str, Mapping[str, str]]) -> str:
    """The path of the last mapping with tags, in which the count is reported."""
    return [path for path, tags in given.items() if tags][-1]


def _count(given: Mapping[str, Mapping[str, str]]) -> str:
    others = _others(given)
    return f"{len(_keys(given)):,}{' with those of ' if others else ''}{others}"


def _others(given: Mapping[str, Mapping[str, str]]) -> str:
    """The paths of the other mappings with tags."""
    return ", ".join(f"`{path}`" for path, tags in given.items() if tags and path != _last(given))


def _of_others(added: Collection[str]) -> str:
    return f", and tandem and AWS add {len(added)} to a node" if {*NODE} <= {*added} else ""


def _wrong_key(key: str) -> tuple[str, str] | None:
    """The rule that a key breaks, and the fix."""
    for prefix, reason in RESERVED.items():
        # AWS has no rule for spaces at the ends; Auto Scaling keeps them (github.com/open-guides/og-aws/pull/621).
        if key.strip().lower().startswith(prefix.lower()):
            return f"begins with `{prefix}`, which {reason}", "Write another key."
    if not key.strip():
        return "is an empty key", "Write a name."
    return _wrong_text(key, MOST_KEY)


def _judge_value(path: str, value: str) -> Problem | None:
    shown = f"'{value}'" if len(value) <= MOST_VALUE else f"{len(value):,} characters"
    if wrong := _wrong_text(value, MOST_VALUE):
        return Problem(path, shown, *wrong, LIMIT)
    if value.strip().lower().startswith("aws:"):
        return Problem(path, shown, "begins with `aws:`, which AWS reserves", "Write another value.", ASIDE)
    return None


def _wrong_text(text: str, most: int) -> tuple[str, str] | None:
    if len(text) > most:
        return f"must have at most {most} characters", f"Shorten it by {len(text) - most:,}."
    if wrong := _NOT_ALLOWED.search(text):
        return f"must be {_CHARACTERS}", f"Remove {foreign_letters(wrong[0]) or repr(wrong[0])}."
    return None
