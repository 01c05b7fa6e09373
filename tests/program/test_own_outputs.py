"""The program exports the outputs that `tandem plan --running` reads."""

from collections.abc import Callable

from sandbox.graph import Graph, masked
from stacks.outputs import PoolOutputs, StackOutputs
from stacks.stack_file.judge import Plan
from tandem.plan.switch import switches


def test_a_deployed_stack_as_its_file_says_switches_nothing(
    graphs: Callable[[str], Graph], plans: Callable[[str], Plan], any_stack: str
) -> None:
    setup = plans(any_stack).config
    running = StackOutputs.model_validate(masked(graphs(any_stack).stack_outputs))
    found = switches(setup, running)
    assert (found.pools, found.new, found.gone, found.gone_models) == ((), (), (), ())
    assert set(running.endpoints) == {served.id for served in setup.models}


def test_the_program_exports_every_output_that_the_model_has_and_no_other(
    graphs: Callable[[str], Graph], plans: Callable[[str], Plan], any_stack: str
) -> None:
    exported = masked(graphs(any_stack).stack_outputs)
    StackOutputs.model_validate(exported)
    only_some = set() if len(exported["pools"]) == 1 else {"mode", "shares", "resource_names"}
    only_some |= set() if plans(any_stack).config.park else {"parking"}
    only_some |= set() if plans(any_stack).config.ui.enabled else {"ui_url", "openai_url", "ui_admin_password"}
    only_some |= (
        set() if (plans(any_stack).config.monitoring.store == "builtin") else {"grafana_url", "grafana_admin_password"}
    )
    assert set(exported) == set(StackOutputs.model_fields) - only_some
    for pool in exported["pools"].values():
        assert set(pool) == set(PoolOutputs.model_fields)
