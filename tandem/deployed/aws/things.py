"""What stands in an account: a thing, its kind, and whose it is."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tandem.deployed.aws.session import Account

Tags = Mapping[str, str]

CLUSTER_TAGS = ("eks:eks-cluster-name", "cluster.k8s.amazonaws.com/name")
"""Tags by which Karpenter and the VPC CNI name the cluster that they made something for."""
MAKERS = ("karpenter.sh/nodepool", "karpenter.k8s.aws/ec2nodeclass", "node.k8s.amazonaws.com/instance_id")
"""Tags that only these two put on what they make; `eks:eks-cluster-name` alone may stand on a user's own things."""

REGION_TAG = "topology.kubernetes.io/region"
"""On Karpenter's instance profiles, which IAM keeps for all regions together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A stack, as tags name it."""

    stack: str
    own_tags: Tags
    """Tags of which everything of the stack carries all, with these very values."""
    cluster: str
    """Name of its EKS cluster."""
    region: str
    by_cluster: bool = True
    """Whether the cluster's name is a claim: not while a cluster of that name exists that is another's."""

    def owns(self, tags: Tags) -> bool:
        """Whether something with these tags is the stack's. A tag of another stack outweighs a cluster's name."""
        if any(key in tags for key in self.own_tags):
            return all(tags.get(key) == value for key, value in self.own_tags.items())
        named = any(tags.get(key) == self.cluster for key in CLUSTER_TAGS)
        here = tags.get(REGION_TAG, self.region) == self.region
        return self.by_cluster and named and here and any(key in tags for key in MAKERS)

    @property
    def telling(self) -> list[tuple[str, str]]:
        """Tags of which at least one is on everything that the stack can own."""
        return [*list(self.own_tags.items())[-1:], *((key, self.cluster) for key in CLUSTER_TAGS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """Something in the account that is the stack's."""

    kind: str
    """Title of its kind, e.g. `volumes`."""
    id: str
    tags: Tags
    detail: str = ""
    """What it is, for people."""
    usd_per_day: float | None = 0.0
    """None where the price is not known."""
    raw: Mapping[str, Any] = field(default_factory=dict)
    """What AWS said of it."""
    going: bool = False
    """Whether its deletion has begun already."""

    @property
    def name(self) -> str:
        """Its name where it has one beside the id."""
        return self.tags.get("Name", "")

    @property
    def label(self) -> str:
        """Kind and id, for a line about this one, e.g. `volume vol-1`."""
        kind = self.kind.removesuffix("ies") + "y" if self.kind.endswith("ies") else self.kind.removesuffix("s")
        return f"{kind} {self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of thing: how to find, read and delete it."""

    title: str
    find: Callable[[Account, Owner], Iterator[Thing]]
    tags: Callable[[Account, Thing], Tags | None]
    """The tags as they are now; None when the thing is gone."""
    delete: Callable[[Account, Thing], None]
    after: tuple[str, ...] = ()
    """Titles of the kinds that must not exist any more: AWS refuses this deletion until then, or lets it through and
    breaks them. While one is left, or cannot be asked for, this kind is left alone."""
    slow: bool = False
    """Whether AWS still deletes it after it has answered the call."""
    minutes: int = 5
    """For how long a deletion is waited for, and tried again where AWS refuses it for the time being. Terraform's AWS
    provider gives IAM 2 minutes (`propagationTimeout`) and what waits for network interfaces more."""
    in_all_regions: bool = False
    """Whether it belongs to the account, not to a region, so that a stack in another region may need it."""
    note: str = ""
    """Shown before the user agrees to delete it."""


def from_list(tags: Any, key: str = "Key", value: str = "Value") -> dict[str, str]:
    """Tags as a mapping, from a list of pairs as most services give them."""
    return {tag[key]: tag[value] for tag in tags or ()}
