"""The program that Pulumi runs: judges the stack's configuration and deploys it. Only it reads Pulumi's config."""

import os
import shutil
from pathlib import Path
from typing import Any

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env, get_config_secret_keys_env
from pulumi.runtime.settings import get_engine

from sharing.names import PROJECT
from sharing.sections.config import SECTIONS
from stacks.deploy import deploy
from stacks.model_files.find import STACK_FOLDER
from stacks.stack_file.judge import Judged, Plan, RefusedError, judge
from stacks.stack_file.yaml import Source, decode

AWS_CLI_MISSING = (
    "The AWS CLI is not on the PATH. The EKS provider needs it, also for a preview, and fails with "
    '"Could not find aws CLI for EKS". Install version 2.7 or later.'
)
PROVIDERS_ELSEWHERE = "PULUMI_DEBUG_PROVIDERS"
"""Pulumi's variable for providers that already run. Those of `tandem sandbox` do not call the AWS CLI."""
ENCRYPTED = {"secure": "…"}
"""Replaces every secret, so that no message shows its value. `judge` refuses it as it does in the file."""
OLDEST_PULUMI = ">=3.217.0"
"""As in Pulumi.yaml, which a CLI before 3.219 ignores. The first engine with the RPC that checks it: older ones answer
UNIMPLEMENTED, and the SDK stops the program."""


def run() -> None:
    """Deploys the stack that Pulumi is running. A refusal is shown without a traceback."""
    # The engine of `set_mocks` is no CLI: it has no version, and not this RPC (SDK 3.272 pulumi/runtime/mocks.py,
    # MockEngine). The stub of a real engine has every RPC, and an old engine answers UNIMPLEMENTED.
    if hasattr(get_engine(), "RequirePulumiVersion"):
        pulumi.require_pulumi_version(OLDEST_PULUMI)
    if shutil.which("aws") is None and not os.environ.get(PROVIDERS_ELSEWHERE):
        # Only a warning: the provider decides, and it may run elsewhere.
        pulumi.log.warn(AWS_CLI_MISSING)
    try:
        plan = load_plan()
    except RefusedError as refusal:
        # Pulumi adds its own `error: ` before it.
        raise pulumi.RunError(str(refusal).removeprefix("error: ")) from None
    deploy(plan)


def load_plan() -> Plan:
    """The plan of the stack that Pulumi is running. Raises `RefusedError`."""
    config = pulumi.Config(PROJECT)
    sections = {key: decode(text) for key in SECTIONS if (text := config.get(key)) is not None}
    provider = _provider_values()
    secrets = {key for key in (*_whole_keys(sections), *provider) if _is_secret(key)}
    for values in (sections, provider):
        values.update({key: ENCRYPTED for key in values if key in secrets or f"{PROJECT}:{key}" in secrets})
    judged = judge(Source(sections, provider, folder=_folder()), f"Pulumi.{pulumi.get_stack()}.yaml")
    given = {key: value for key, value in {**_whole_keys(sections), **provider}.items() if key not in secrets}
    return _with_places(judged, given).plan()


def _folder() -> Path:
    """The folder of the stack's file. That of `tandem sandbox` has only a copy, and says where the file is."""
    return Path(os.environ.get(STACK_FOLDER) or pulumi.get_root_directory() or ".").resolve()


def _whole_keys(sections: dict[str, Any]) -> dict[str, Any]:
    return {f"{PROJECT}:{key}": value for key, value in sections.items()}


def _is_secret(key: str) -> bool:
    return pulumi.runtime.is_config_secret(key) or key in get_config_secret_keys_env()


def _with_places(judged: Judged, given: dict[str, Any]) -> Judged:
    """The same, with the places of errors and warnings in the stack's file and in Pulumi.yaml.

    Pulumi does not say where a value comes from. It does not come from a file with another value.
    """
    if not judged.problems and not judged.warnings:
        return judged
    from stacks.stack_file.positions import locate_given, read_documents

    # Beside the program and, where `main` is elsewhere, in the project. That of `tandem sandbox` has only a copy.
    project = Path(pulumi.get_root_directory() or ".").resolve()
    homes = [Path.cwd()] if PROVIDERS_ELSEWHERE in os.environ else dict.fromkeys((project, Path.cwd()))
    documents = read_documents(homes, judged.name)
    return judged.with_places(lambda problems: locate_given(problems, given, documents))


def _provider_values() -> dict[str, Any]:
    """Values of all `aws:` keys. `pulumi.Config` cannot list keys, so an unexpected one would go unnoticed."""
    values = {**get_config_env(), **CONFIG.get()}
    return {key: value for key, value in values.items() if key.startswith("aws:")}
