"""What `tandem verify` reads from a Ollama server: the context that a request gets, chosen by a user or by Ollama."""

from contextlib import closing
from dataclasses import replace

import pytest

from tandem.deployed.endpoints import Endpoint
from tandem.deployed.ollama import Ollama
from tandem.verify.checks import Check, server_checks
from tandem.verify.servers import examine
from tests.ollama.test_model_start import OWN, FakeGpu, Server, fake_gpu
from tests.tandem.seen import planned

__all__ = ["fake_gpu"]


def checks(server: Server, context: int) -> dict[str, Check]:
    plan = planned()
    fit = plan.verdict.fits[0]
    served = fit.served.with_model(replace(fit.served.model, name=OWN, max_context=context)).changed(context=context)
    endpoint = Endpoint("a", f"http://{server.environment['OLLAMA_HOST']}", OWN)
    with closing(Ollama(endpoint)) as asked:
        return {
            check.what: check for check in server_checks(plan, replace(fit, served=served), examine({"a": asked})["a"])
        }


def test_the_context_of_a_slot_is_compared(fake_gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_NUM_PARALLEL", "2")
    server = fake_gpu("full", 14900)
    found = checks(server, 8192)
    assert {check.held for check in found.values()} == {True}, found
    assert found["context"].found == "8,192 tokens", "of one slot, not of both"
    assert checks(server, 4096)["context"].held is False


def test_a_tag_that_sets_its_own_context_is_found(fake_gpu: FakeGpu) -> None:
    server = fake_gpu("full", 14900)
    (server.folder / "shorter").write_text(f"FROM {OWN}\nPARAMETER num_ctx 512\n")
    server.ollama("create", OWN, "-f", str(server.folder / "shorter"))
    found = checks(server, 8192)["context"]
    assert (found.held, found.found) == (False, "512 tokens")
    assert "--parameters" in found.fix
    assert "num_ctx" in server.ollama("show", OWN, "--parameters"), "what the fix asks for says so"
