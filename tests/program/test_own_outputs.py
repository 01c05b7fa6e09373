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
    found = switches(setup, running, proof=True, limits={})
    assert (found.pools, found.new, found.gone, found.gone_models) == ((), (), (), ())
    assert set(running.endpoints) == {served.id for served in setup.models}


def test_the_program_exports_every_output_that_the_model_has_and_no_other(
    graphs: Callable[[str], Graph], plans: Callable[[str], Plan], any_stack: str
) -> None:
    exported, config = masked(graphs(any_stack).stack_outputs), plans(any_stack).config
    missing = {
        "mode shares resource_names": len(config.pools) > 1,
        "parking": config.park is None,
        "ui_url openai_url ui_admin_password": not config.ui.enabled,
        "ui_volume_id destroy_deletes": not config.ui.kept_gib,
        "grafana_url grafana_admin_password": config.monitoring.store == "none",
    }
    only_some = {name for names, is_missing in missing.items() if is_missing for name in names.split()}
    assert set(exported) == set(StackOutputs.model_fields) - only_some
    for pool in exported["pools"].values():
        assert set(pool) == set(PoolOutputs.model_fields)
