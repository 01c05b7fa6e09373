"""Checks of this machine: Python, the Pulumi CLI, the AWS CLI."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

from semver import Version

from tandem.doctor.case import Case
from tandem.doctor.finding import Finding, ok, stops, unknown, warning

OLDEST_PYTHON = (3, 11)
"""`requires-python` of pyproject.toml."""
OLDEST_PULUMI = Version(3, 217)
"""An older engine lacks the RPC `RequirePulumiVersion`, and the program stops (pulumi/pulumi,
proto/pulumi/engine.proto: `CheckPulumiVersion` in 3.216, nothing before)."""
OLDEST_AWS_CLI = {1: Version(1, 24), 2: Version(2, 7)}
"""By major version; the eks provider refuses older ones (pulumi-eks, nodejs/eks/dependencies.ts)."""
PULUMI_PAGE = "https://www.pulumi.com/docs/install/"
AWS_CLI_PAGE = "https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html"
PROGRAM_SECONDS = 60
SEE_WHY = "Run the command yourself to see why."
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?")


def check_python(case: Case) -> Iterator[Finding]:
    """`.venv` has Python 3.11 or later, as this command does."""
    fix = "Delete .venv. Install Python 3.11 or later, then run `make PYTHON=python3.11 plan`."
    settings = case.project / ".venv" / "pyvenv.cfg"
    try:
        text = settings.read_text(encoding="latin-1")  # of any bytes: the folder's name may be in it
    except OSError:
        # `pulumi up` creates a missing environment (pulumi, sdk/python/toolchain/pip.go, EnsureVenv).
        text = ""
    version = re.search(r"^version(?:_info)? *= *(\d+)\.(\d+)", text, flags=re.MULTILINE)
    if version and (int(version[1]), int(version[2])) < OLDEST_PYTHON:
        yield stops(f".venv has {version[1]}.{version[2]}, which is older than 3.11", fix)
    else:
        yield ok(".".join(map(str, sys.version_info[:3])))


def check_pulumi(case: Case) -> Iterator[Finding]:
    """`pulumi` is on the PATH, and is 3.217.0 or later."""
    version = _version_of("pulumi", "version", PULUMI_PAGE)
    if isinstance(version, Finding):
        yield version
    elif version < OLDEST_PULUMI:
        yield stops(f"{shown(version)} is older than {shown(OLDEST_PULUMI)}", f"Update it: {PULUMI_PAGE}")
    else:
        yield ok(shown(version))


def check_aws_cli(case: Case) -> Iterator[Finding]:
    """`aws` is on the PATH, and is version 2.7.0 or later; 1.24.0 or later is enough only for `aws eks get-token`."""
    # Without it, neither the eks provider nor the kubeconfig works.
    version = _version_of("aws", "--version", AWS_CLI_PAGE)
    if isinstance(version, Finding):
        yield version
        return
    oldest = OLDEST_AWS_CLI.get(version.major)
    if oldest and version < oldest:
        yield stops(f"{shown(version)} is older than {shown(oldest)}", f"Update it: {AWS_CLI_PAGE}")
    elif version.major == 1:
        text = f"{shown(version)} has `aws eks get-token`, but not `aws sso login`"
        yield warning(text, f"Install version 2: {AWS_CLI_PAGE}")
    else:
        yield ok(shown(version))


def _version_of(program: str, argument: str, page: str) -> Version | Finding:
    """The version that a program prints, or why it is unknown."""
    path = shutil.which(program)
    if path is None:
        return stops(f"`{program}` is not on the PATH", f"Install it: {page}")
    command = f"`{program} {argument}`"
    try:
        done = subprocess.run(
            [path, argument],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROGRAM_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return unknown(f"{command} did not answer within {PROGRAM_SECONDS} s", SEE_WHY)
    except OSError as error:
        return unknown(f"{command} cannot run: {error.strerror}", SEE_WHY)
    said = f"{done.stdout}\n{done.stderr}".strip()
    if done.returncode:
        return unknown(f"{command} failed with exit code {done.returncode}: {said[:80]!r}", SEE_WHY)
    # E.g. `aws-cli/2.15.30 Python/3.11.8`.
    parts = _VERSION.search(said)
    if not parts:
        return unknown(f"{command} prints no version: {said[:60]!r}", f"Install a released build: {page}")
    major, minor, patch, before = parts.groups()
    return Version(int(major), int(minor), int(patch), before)


def shown(version: Version) -> str:
    """The usual notation, without what follows a `-`."""
    return f"{version.major}.{version.minor}.{version.patch}"
