import asyncio
import contextvars
import gc
import os
import threading

import pulumi
import pulumi.runtime.resource
import pulumi_aws as aws
import pulumi_kubernetes as k8s
import pytest
from pulumi.runtime import set_all_config
from pulumi.runtime.proto import source_pb2
from pulumi.runtime.settings import ROOT, SETTINGS

from sandbox.graph import Graph
from tests.sandbox.conftest import ran


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


def test_the_process_is_as_before_even_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    environment = dict(os.environ)
    assert pulumi.runtime.resource._get_stack_trace.__module__ == "pulumi.runtime.resource"
    before = pulumi.runtime.resource._get_stack_trace, SETTINGS.callbacks, SETTINGS.monitor, ROOT.get()

    def program() -> None:
        assert not gc.isenabled()
        assert pulumi.runtime.resource._get_stack_trace is source_pb2.StackTrace
        os.environ |= {"MADE_BY_THE_PROGRAM": "1", "AWS_REGION": "changed"}
        raise LookupError

    with pytest.raises(LookupError):
        ran(program)
    assert gc.isenabled()
    assert dict(os.environ) == environment
    assert (pulumi.runtime.resource._get_stack_trace, SETTINGS.callbacks, SETTINGS.monitor, ROOT.get()) == before


def test_what_a_program_gives_to_a_thread_runs_in_one() -> None:
    async def ask() -> int:
        return await asyncio.get_running_loop().run_in_executor(None, threading.get_ident)

    graph = ran(lambda: pulumi.export("thread", pulumi.Output.from_input(ask())))
    assert graph.stack_outputs["thread"] != threading.get_ident()


def test_a_stack_and_a_configuration_left_behind_by_mocks_have_no_effect() -> None:
    def after_mocks() -> Graph:
        ROOT.set(pulumi.Resource.__new__(pulumi.Resource))
        set_all_config({"p:a": "left"})
        return ran(lambda: pulumi.export("a", pulumi.Config().get("a", "none")))

    assert contextvars.copy_context().run(after_mocks).stack_outputs == {"a": "none"}
