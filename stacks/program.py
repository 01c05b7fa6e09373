"""The program that Pulumi runs: judges the stack's configuration and deploys it. The only reader of Pulumi's config."""

import os
import shutil
from typing import Any

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env

from sharing.names import PROJECT
from stacks.deploy import deploy
from stacks.stack_file.judge import Plan, RefusedError, judge
from stacks.stack_file.shape import SECTIONS
from stacks.stack_file.yaml import Source, decode

AWS_CLI_MISSING = (
    "The AWS CLI is not on the PATH. The EKS provider needs it, also for a preview, and fails with "
    '"Could not find aws CLI for EKS". Install version 2.7 or later, or 1.24 of version 1.'
)
PROVIDERS_ELSEWHERE = "PULUMI_DEBUG_PROVIDERS"
"""Set if providers already run, such as those of `tandem sandbox`, which do not call the AWS CLI."""
OLDEST_PULUMI = ">=3.214.0"
"""As in Pulumi.yaml, which a CLI before 3.219 ignores. An older engine ignores `replacement_trigger` and does not
repeat the share check after a switch."""


def run() -> None:
    """Deploys the stack that Pulumi is running. A refusal is shown without a traceback."""
    pulumi.require_pulumi_version(OLDEST_PULUMI)
    if shutil.which("aws") is None and not os.environ.get(PROVIDERS_ELSEWHERE):
        # Only a warning: the provider decides, and it may run elsewhere.
        pulumi.log.warn(AWS_CLI_MISSING)
    try:
        plan = load_plan()
    except RefusedError as refusal:
        raise pulumi.RunError(str(refusal)) from None
    deploy(plan)


def load_plan() -> Plan:
    """The plan of the stack that Pulumi is running. Raises `RefusedError`."""
    config = pulumi.Config(PROJECT)
    sections = {key: decode(text) for key in SECTIONS if (text := config.get(key)) is not None}
    return judge(Source(sections, _provider_values()), f"Pulumi.{pulumi.get_stack()}.yaml").plan()


def _provider_values() -> dict[str, Any]:
    """Values of all `aws:` keys. `pulumi.Config` cannot list keys, so an unexpected one would go unnoticed."""
    known = {**get_config_env(), **CONFIG.get()}
    return {key: value for key, value in known.items() if key.startswith("aws:")}
