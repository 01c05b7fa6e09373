"""Compositions: one file per sharing mode, which blocks in which order. The only readers of Pulumi config."""

from importlib import import_module

from stacks.config import RefusedError, StackConfig, load_stack


def build(config: StackConfig) -> None:
    """Registers the whole stack that `config` asks for; raises `RefusedError` when it must not be."""
    import_module(f"{__name__}.{config.sharing.mode}").stack(config)


def run() -> None:
    """The program that Pulumi runs. A refusal is told without a traceback."""
    import pulumi

    try:
        build(load_stack())
    except RefusedError as refusal:
        raise pulumi.RunError(str(refusal)) from None
