"""Rules of KEDA in the emulated cloud, and the scaling of models."""

import pytest

from sandbox.world import CloudError, tokens
from tests.sandbox.world_pieces import Account, refused

SCALED = {
    "fullnameOverride": "small",
    "replicaCount": 0,
    "extraObjects": [
        {"apiVersion": "http.keda.sh/v1beta1", "kind": "InterceptorRoute", "metadata": {"name": "small"}},
        {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "small"}},
    ],
}


@pytest.fixture
def keda(account: Account) -> tuple[str, str]:
    return account.release("keda", "keda"), account.release("keda-add-ons-http", "keda-add-ons-http")


def serving(account: Account) -> int:
    names = [one.name for one in account.of(tokens.POD)]
    return sum(name.startswith("small") for name in names)


@pytest.mark.real_world(
    behaviour="Helm refuses a release with an object whose kind the cluster does not know",
    source="helm v3 pkg/kube/client.go, Build",
)
def test_charts_bring_the_kinds(account: Account) -> None:
    with refused("NotFound", 'no matches for kind "ScaledObject"'):
        account.release("keda-add-ons-http", "keda-add-ons-http")
    account.release("keda", "keda")
    with refused("NotFound", 'no matches for kind "InterceptorRoute"'):
        account.release("small", "ollama", **SCALED)


def test_a_request_starts_a_model_and_rest_stops_it(account: Account, keda: tuple[str, str]) -> None:
    account.release("small", "ollama", **SCALED)
    assert serving(account) == 0
    for _ in range(2):
        account.world.request("small")
        assert serving(account) == 1
    account.world.rest()
    assert serving(account) == 0
    with pytest.raises(CloudError, match="no route for other"):
        account.world.request("other")


def test_an_upgrade_sets_the_number_of_the_values_again(account: Account, keda: tuple[str, str]) -> None:
    release = account.release("small", "ollama", **SCALED)
    account.world.request("small")
    account.change(tokens.RELEASE, release, values={**SCALED, "extraEnv": []})
    assert serving(account) == 0


@pytest.mark.real_world(
    behaviour="Only KEDA's operator removes the finalizer of a ScaledObject",
    source="keda v2.20.2 controllers/keda/scaledobject_finalizer.go",
)
def test_without_keda_nothing_that_it_scales_can_be_deleted(account: Account, keda: tuple[str, str]) -> None:
    operator, add_on = keda
    release = account.release("small", "ollama", **SCALED)
    with refused("Timeout", "ScaledObject keda-add-ons-http-interceptor holds the CRD"):
        account.drop(tokens.RELEASE, operator)
    account.world.forget(tokens.RELEASE, operator)
    for one in (release, add_on):
        with refused("Timeout", "no KEDA removes its finalizer"):
            account.drop(tokens.RELEASE, one)
    account.release("keda", "keda")
    for one in (release, add_on, operator):
        account.drop(tokens.RELEASE, one)
    assert account.of(tokens.RELEASE) == []


def test_nothing_is_forwarded_without_a_running_add_on(account: Account, keda: tuple[str, str]) -> None:
    account.release("small", "ollama", **SCALED)
    account.world.forget(tokens.RELEASE, keda[1])
    with pytest.raises(CloudError, match="no route"):
        account.world.request("small")
