"""The program that Pulumi runs: judges the stack's configuration and deploys it. The only reader of Pulumi's config."""

import json
import os
import shutil
from typing import Any

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env

from sharing.names import PROJECT
from stacks.deploy import deploy
from stacks.stack_file.judge import Plan, RefusedError, judge
from stacks.stack_file.shape import SECTIONS
from stacks.stack_file.yaml import Source

AWS_CLI_MISSING = (
    "The AWS CLI is not on the PATH. The eks provider calls it, also for a preview, and will stop with "
    '"Could not find aws CLI for EKS". Install version 2.7 or later, or 1.24 of version 1.'
)
PROVIDERS_ELSEWHERE = "PULUMI_DEBUG_PROVIDERS"
"""Names providers that run already, as those of `tandem sandbox` do: none of them calls the AWS CLI."""
OLDEST_PULUMI = ">=3.214.0"
"""As in Pulumi.yaml, which a CLI before 3.219 ignores. An older engine ignores `replacement_trigger`, and does not
prove shares again after a switch."""


def run() -> None:
    """Deploys the stack that Pulumi is running. A refusal is shown without a traceback."""
    pulumi.require_pulumi_version(OLDEST_PULUMI)
    if shutil.which("aws") is None and not os.environ.get(PROVIDERS_ELSEWHERE):
        # A warning: the provider, which may run elsewhere, has the last word.
        pulumi.log.warn(AWS_CLI_MISSING)
    try:
        plan = load_plan()
    except RefusedError as refusal:
        raise pulumi.RunError(str(refusal)) from None
    deploy(plan)


def load_plan() -> Plan:
    """The plan of the stack that Pulumi is running. Raises `RefusedError`."""
    config = pulumi.Config(PROJECT)
    sections = {key: _value(text) for key in SECTIONS if (text := config.get(key)) is not None}
    return judge(Source(sections, _provider_values()), f"Pulumi.{pulumi.get_stack()}.yaml").plan()


def _provider_values() -> dict[str, Any]:
    """Values of all `aws:` keys. `pulumi.Config` cannot list keys, and an overlooked one would not be refused."""
    known = {**get_config_env(), **CONFIG.get()}
    return {key: value for key, value in known.items() if key.startswith("aws:")}


def _value(text: str) -> Any:
    """Pulumi passes mappings and lists as JSON, and text as it is: `tandem:sharing: mps` is an error to report."""
    try:
        return json.loads(text)
    except ValueError:
        return text
