"""Resources in an account: what kind they are and which stack owns them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tandem.aws.session import Account

Tags = Mapping[str, str]
Key = tuple[str, str]
"""Title of the kind, and id."""

CLUSTER_TAGS = ("eks:eks-cluster-name", "cluster.k8s.amazonaws.com/name")
"""Tags with which Karpenter and the VPC CNI name the cluster that they created something for."""
MAKERS = ("karpenter.sh/nodepool", "karpenter.k8s.aws/ec2nodeclass", "node.k8s.amazonaws.com/instance_id")
"""Tags that only these two set on their resources; `eks:eks-cluster-name` alone may be on a user's own."""

REGION_TAG = "topology.kubernetes.io/region"
"""On Karpenter's instance profiles, which IAM shares across regions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A stack, as tags identify it."""

    stack: str
    own_tags: Tags
    """Tags that every resource of the stack has, with these values."""
    cluster: str
    """Name of its EKS cluster."""
    region: str
    by_cluster: bool
    """Whether the cluster's name proves ownership: not while another owner's cluster has that name."""

    def owns(self, tags: Tags) -> bool:
        """Whether something with these tags is the stack's. A tag of another stack outweighs a cluster's name."""
        if any(key in tags for key in self.own_tags):
            return all(tags.get(key) == value for key, value in self.own_tags.items())
        named = any(tags.get(key) == self.cluster for key in CLUSTER_TAGS)
        here = tags.get(REGION_TAG, self.region) == self.region
        return self.by_cluster and named and here and any(key in tags for key in MAKERS)

    @property
    def identifying(self) -> list[tuple[str, str]]:
        """Tags of which everything that the stack can own has at least one."""
        return [*list(self.own_tags.items())[-1:], *((key, self.cluster) for key in CLUSTER_TAGS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Something in the account that is the stack's."""

    kind: str
    """Title of its kind, e.g. `volumes`."""
    id: str
    tags: Tags
    detail: str = ""
    """A description for the screen."""
    usd_per_day: float | None = 0.0
    """None if the price is unknown."""
    raw: Mapping[str, Any] = field(default_factory=dict)
    """AWS's description, where another call needs it."""
    going: bool = False
    """Whether its deletion has already begun."""

    @property
    def key(self) -> Key:
        """What no other resource of the account has."""
        return self.kind, self.id

    @property
    def name(self) -> str:
        """Its name, if it has one besides the id."""
        return self.tags.get("Name", "")

    @property
    def label(self) -> str:
        """Kind and id, e.g. `volume vol-1`."""
        return f"{singular(self.kind)} {self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of resource: how to find, read and delete it."""

    title: str
    find: Callable[[Account, Owner], Iterator[Resource]]
    tags: Callable[[Account, Resource], Tags | None]
    """The current tags; None if the resource no longer exists."""
    delete: Callable[[Account, Resource], None]
    tagged_as: tuple[str, ...] = ()
    """Service and type of these resources in the tagging service, whose answers lag behind the service's own."""
    after: tuple[str, ...] = ()
    """Titles of the kinds to delete before: AWS refuses this deletion until then, or allows it and
    breaks them. While one remains, or cannot be listed, this kind is kept."""
    slow: bool = False
    """Whether AWS continues to delete it after answering the call."""
    shared_service: str = ""
    """The service, if its resources belong to the account and not to one region: a stack in another region may need
    them."""
    is_free: bool = False
    """Whether it costs nothing, so that one that could not be listed leaves no cost unseen."""
    note: str = ""
    """Shown before the user agrees to delete it."""

    @property
    def minutes(self) -> int:
        """How long to wait for a deletion, and to retry while AWS refuses it."""
        # Terraform's AWS provider gives IAM 2 minutes (`propagationTimeout`).
        return 25 if self.slow else 5


def counted(count: int, title: str) -> str:
    """E.g. `1 volume` and `2 volumes`."""
    return f"{count} {title if count != 1 else singular(title)}"


def singular(title: str) -> str:
    """The title for one resource, e.g. `IAM policy` for `IAM policies`."""
    return title.removesuffix("ies") + "y" if title.endswith("ies") else title.removesuffix("s")


def from_list(tags: Any) -> dict[str, str]:
    """Tags as a mapping, from a list of pairs as most services give them."""
    return {tag["Key"]: tag["Value"] for tag in tags or ()}
