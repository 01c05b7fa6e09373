"""The way to an emulated cluster's API server: through a proxy, with TLS, as a program reaches a cluster in AWS."""

from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.engine import serving_clusters
from sandbox.world import tokens
from stacks.kubernetes_api import KubernetesApi, NotAdmittedError, NotReachedError
from tests.authority import make_authority, show_authority
from tests.sandbox.world_pieces import Account

NAMESPACES = "/api/v1/namespaces"


def an_account(authority: dict[str, str]) -> Account:
    account = Account()
    with account.world.changing() as entities:
        entities.authority = authority
    account.cluster()
    return account


def reading(account: Account, **changed: str) -> KubernetesApi:
    """The program's reader, with what AWS says about the cluster."""
    found: dict[str, Any] = account.world.invoke("aws:eks/getCluster:getCluster", {"name": "c"}, {})
    token = account.world.invoke("aws:eks/getClusterAuth:getClusterAuth", {"name": "c"}, {})["token"]
    given = {"endpoint": found["endpoint"], "authority": found["certificateAuthorities"][0]["data"], "token": token}
    return KubernetesApi(**{**given, **changed})


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    account = an_account(make_authority())
    with serving_clusters(account.world) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        monkeypatch.delenv("https_proxy", raising=False)
        yield account


def test_the_reader_gets_the_objects_of_the_cluster(account: Account) -> None:
    account.make(tokens.NAMESPACE, metadata={"name": "shop"})
    answer = reading(account).read(NAMESPACES)
    assert answer is not None
    assert "shop" in [one["metadata"]["name"] for one in answer["items"]]
    assert reading(account).read("/apis/monitoring.coreos.com/v1/servicemonitors") is None


def test_it_notices_a_wrong_token_authority_and_address(account: Account) -> None:
    with pytest.raises(NotAdmittedError, match="401"):
        reading(account, token="nonsense").read(NAMESPACES)
    make_authority.cache_clear()
    with pytest.raises(NotReachedError, match="certificate verify failed"):
        reading(account, authority=show_authority()).read(NAMESPACES)
    with pytest.raises(NotReachedError, match="502"):
        reading(account, endpoint="https://other.gr7.us-east-1.eks.amazonaws.com").read(NAMESPACES)


def test_a_cloud_without_an_authority_has_no_proxy() -> None:
    with serving_clusters(an_account({}).world) as proxy:
        assert proxy == ""
