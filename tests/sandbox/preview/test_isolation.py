from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import threading
from typing import Any

import pulumi
import pulumi.runtime.resource
import pulumi_aws as aws
import pulumi_kubernetes as k8s
import pytest
from pulumi.runtime.settings import ROOT, SETTINGS

from sandbox.cloud.answers import Cloud
from sandbox.cloud.protocol import Created, Creation
from sandbox.graph import Graph
from sandbox.preview.process import prepared
from tests.sandbox.conftest import Pair, ran


def test_the_environment_does_not_reach_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("AWS_REGION", "AWS_PROFILE", "KUBECONFIG", "PULUMI_K8S_SUPPRESS_HELM_HOOK_WARNINGS", "PULUMI_CONFIG_SIZE")
    for name in names:
        monkeypatch.setenv(name, "true")

    def program() -> None:
        aws.Provider("aws")
        k8s.Provider("k8s")
        pulumi.export("size", pulumi.Config().get("size"))

    graph = ran(program)
    assert "region" not in graph.named("aws").inputs
    assert graph.named("k8s").inputs == {}
    assert graph.stack_outputs == {}
    assert [os.environ[name] for name in names] == ["true"] * len(names)


def test_the_environment_is_as_before_even_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("OTHER", "kept")
    before = dict(os.environ)

    def program() -> None:
        os.environ["MADE_BY_THE_PROGRAM"] = "1"
        os.environ["OTHER"] = "changed"
        raise LookupError

    with pytest.raises(LookupError):
        ran(program)
    assert dict(os.environ) == before


def test_the_process_is_as_before_even_after_a_failure() -> None:
    assert pulumi.runtime.resource._get_stack_trace.__module__ == "pulumi.runtime.resource"
    before = pulumi.runtime.resource._get_stack_trace, SETTINGS.callbacks, SETTINGS.monitor, ROOT.get()

    def program() -> None:
        assert not gc.isenabled()
        raise LookupError

    with pytest.raises(LookupError):
        ran(program)
    assert gc.isenabled()
    assert (pulumi.runtime.resource._get_stack_trace, SETTINGS.callbacks, SETTINGS.monitor, ROOT.get()) == before


def test_a_stack_left_behind_by_mocks_does_no_harm() -> None:
    def after_mocks() -> Graph:
        ROOT.set(pulumi.Resource.__new__(pulumi.Resource))
        return ran(lambda: pulumi.export("a", 1))

    assert contextvars.copy_context().run(after_mocks).stack_outputs == {"a": 1}


def test_the_process_is_put_back_after_the_last_of_several_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    first, second = prepared(), prepared()
    first.__enter__()
    monkeypatch.setenv("AWS_REGION", "set-between")
    second.__enter__()
    assert os.environ["AWS_REGION"] == "set-between"
    first.__exit__(None, None, None)
    assert os.environ["AWS_REGION"] == "set-between"
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert os.environ["AWS_REGION"] == "eu-west-1"
    assert gc.isenabled()


def test_eight_runs_at_once_do_not_see_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    before = dict(os.environ)
    together = threading.Barrier(8)
    graphs: dict[int, Graph] = {}

    def program(number: int) -> None:
        together.wait()
        aws.Provider("aws")
        for index in range(number + 1):
            Pair(f"pair-{index}")
        pulumi.export("number", pulumi.Config().require("number"))

    def one(number: int) -> None:
        graphs[number] = ran(lambda: program(number), stack=f"s{number}", config={"number": str(number)})

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, graph in graphs.items():
        assert graph.stack_outputs == {"number": str(number)}
        assert len(graph.of_type("aws:iam/role:Role")) == 2 * (number + 1)
        assert all(one.urn.startswith(f"urn:pulumi:s{number}::") for one in graph)
        assert "region" not in graph.named("aws").inputs
    assert len(graphs) == 8
    assert dict(os.environ) == before
    assert gc.isenabled()


def test_calls_to_the_monitor_stay_on_the_programs_thread_and_other_work_gets_its_own() -> None:
    threads: list[threading.Thread] = []

    class Watched(Cloud):
        def created(self, creation: Creation) -> Created:
            threads.append(threading.current_thread())
            return super().created(creation)

    async def main() -> dict[str, Any]:
        aws.ec2.Vpc("net")
        return {"thread": await asyncio.to_thread(lambda: threading.current_thread().name)}

    graph = ran(lambda: pulumi.run(main), cloud=Watched())
    assert threads == [threading.current_thread()]
    assert graph.stack_outputs["thread"] != threading.current_thread().name


def test_preview_is_what_the_program_is_told() -> None:
    def program() -> None:
        pulumi.export("preview", pulumi.runtime.is_dry_run())

    assert ran(program).stack_outputs == {"preview": True}
    assert ran(program, preview=False).stack_outputs == {"preview": False}
