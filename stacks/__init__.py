"""Compositions: one file per sharing mode, which blocks in which order. The only readers of Pulumi config."""

import os
import shutil
from importlib import import_module

from stacks.config import RefusedError, StackConfig, load_stack


def build(config: StackConfig) -> None:
    """Registers the whole stack that `config` asks for; raises `RefusedError` when it must not be."""
    import_module(f"{__name__}.{config.mode}").stack(config)


AWS_CLI_MISSING = (
    "The AWS CLI is not on the PATH. The eks provider calls it, also for a preview, and will stop with "
    '"Could not find aws CLI for EKS". Install version 2.7 or later, or 1.24 of version 1.'
)
PROVIDERS_ELSEWHERE = "PULUMI_DEBUG_PROVIDERS"
"""Names providers that run already, as those of `tandem sandbox` do: none of them calls the AWS CLI."""
OLDEST_PULUMI = ">=3.214.0"
"""As in Pulumi.yaml, which a CLI before 3.219 does not heed. An older engine ignores `replacement_trigger`, and shares
would not be proved again after a switch."""


def run() -> None:
    """The program that Pulumi runs. A refusal is told without a traceback."""
    import pulumi

    pulumi.require_pulumi_version(OLDEST_PULUMI)
    if shutil.which("aws") is None and not os.environ.get(PROVIDERS_ELSEWHERE):
        # A warning: the provider, which may run elsewhere, has the last word.
        pulumi.log.warn(AWS_CLI_MISSING)
    try:
        build(load_stack())
    except RefusedError as refusal:
        raise pulumi.RunError(str(refusal)) from None
