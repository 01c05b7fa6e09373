"""Rules of KEDA in the emulated cloud. tests/scale runs the real KEDA."""

import pytest

from sandbox.world import tokens
from tests.sandbox.world_pieces import Account, refused

SCALED = {
    "fullnameOverride": "small",
    "replicaCount": 0,
    "extraObjects": [
        {"apiVersion": "http.keda.sh/v1beta1", "kind": "InterceptorRoute", "metadata": {"name": "small"}},
        {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "small"}},
    ],
}
ADD_ON = "keda-add-ons-http"


@pytest.mark.real_world(
    behaviour="Helm refuses a release with an object whose kind the cluster does not know",
    source="helm v3 pkg/kube/client.go, Build",
)
def test_charts_bring_the_kinds(account: Account) -> None:
    with refused("NotFound", 'no matches for kind "ScaledObject"'):
        account.release(ADD_ON, ADD_ON)
    account.release("keda", "keda")
    with refused("NotFound", 'no matches for kind "InterceptorRoute"'):
        account.release("small", "ollama", **SCALED)
    account.release(ADD_ON, ADD_ON)
    account.release("small", "ollama", **SCALED)


@pytest.mark.real_world(
    behaviour="Only KEDA's operator removes the finalizer of a ScaledObject",
    source="keda v2.20.2 controllers/keda/scaledobject_finalizer.go",
)
def test_without_keda_nothing_that_it_scales_can_be_deleted(account: Account) -> None:
    operator = account.release("keda", "keda")
    held = {account.release(ADD_ON, ADD_ON): f"{ADD_ON}-interceptor", account.release("m", "ollama", **SCALED): "small"}
    plain = account.release("plain", "ollama", replicaCount=0)
    account.drop(tokens.RELEASE, operator)
    for release, name in held.items():
        with refused("Timeout", f"ScaledObject {name} is Terminating: no KEDA removes its finalizer"):
            account.drop(tokens.RELEASE, release)
    account.drop(tokens.RELEASE, plain)
    account.release("keda", "keda")
    for release in held:
        account.drop(tokens.RELEASE, release)
