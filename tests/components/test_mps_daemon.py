"""The MPS daemon of a node: its user data as nodes receive it, the script in it, and the unit that it writes."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

from components.mps_daemon import PROGRAM, install_script, unit, user_data

DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"
SYSTEM = Path("/etc/systemd/system")


def parts_of(text: str) -> list[Message]:
    """The parts of a MIME archive."""
    return [part for part in message_from_string(text).walk() if not part.is_multipart()]


def as_it_is(text: str) -> str:
    return text


def through_karpenter(text: str) -> str:
    """As karpenter-provider-aws 1.14.1 sends it: pkg/providers/amifamily/bootstrap/nodeadm.go and mime/mime.go.

    Of each part only Content-Type and body are left, the boundary is `//`, and its own part is the last one.
    """
    assert text.startswith(("MIME-Version:", "Content-Type:")), "Karpenter would take it for YAML or a plain script"
    own = ("application/node.eks.aws", "# Karpenter Generated NodeConfig\napiVersion: node.eks.aws/v1alpha1\n")
    given = [(part["Content-Type"], part.get_payload()) for part in parts_of(text)]
    parts = "\n".join(f"--//\nContent-Type: {kind}\n\n{body}" for kind, body in [*given, own])
    return f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n{parts}\n--//--\n'


@pytest.mark.slow
@pytest.mark.real_world(
    behaviour="Karpenter keeps no header of a part but its Content-Type, so a part in base64 would never run",
    source="karpenter-provider-aws 1.14.1 pkg/providers/amifamily/bootstrap/mime/mime.go, NewArchive",
)
@pytest.mark.parametrize("sent", [as_it_is, through_karpenter])
def test_cloud_init_finds_one_script_in_the_user_data(
    sent: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Last: packages of this environment come first.
    monkeypatch.setattr(sys, "path", [*sys.path, DEBIAN_PACKAGES])
    why = "there is no cloud-init to read the user data: install Debian's package, or set PYTHONPATH"
    handlers = pytest.importorskip("cloudinit.handlers", reason=why)
    from cloudinit import helpers  # type: ignore[import-not-found]  # PyPI does not have it
    from cloudinit import user_data as reader

    paths = helpers.Paths({"cloud_dir": str(tmp_path), "run_dir": str(tmp_path)})
    message = reader.UserDataProcessor(paths).process(sent(user_data()))
    found: list[tuple[str, str]] = []
    handlers.walk(message, lambda _, name, text, headers: found.append((headers["Content-Type"], text)), {})
    scripts = [text for kind, text in found if kind == "text/x-shellscript"]
    assert scripts == [install_script()]
    # nodeadm reads its part itself, and cloud-init leaves it alone.
    assert {kind for kind, _ in found} - {"text/x-shellscript", "application/node.eks.aws"} == set()


@pytest.mark.real_world(
    behaviour="EC2 takes 16 KB of user data, and EKS and Karpenter add a part to ours",
    source="docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html",
)
def test_the_user_data_is_short_plain_text_that_needs_no_encoding() -> None:
    text = user_data()
    assert text.isascii()
    assert len(text) < 12 * 1024
    # Karpenter's boundary.
    assert not [line for line in text.splitlines() if line.startswith("--//")]
    [part] = parts_of(text)
    # As in the example of the EKS user guide, "Customize managed nodes with launch templates".
    assert part.items() == [("Content-Type", 'text/x-shellscript; charset="us-ascii"')]
    assert part.get_payload() == install_script()


def run_script(folder: Path, systemctl: str) -> tuple[int, list[str]]:
    """Runs the script with its unit's folder and `systemctl` replaced. Returns its exit code and the calls."""
    (folder / "bin").mkdir()
    (folder / "bin" / "systemctl").write_text(f'#!/bin/sh\necho "$@" >>"{folder}/calls"\n{systemctl}\n')
    (folder / "bin" / "systemctl").chmod(0o755)
    script = folder / "script"
    script.write_text(install_script().replace(str(SYSTEM), str(folder)))
    script.chmod(0o700)
    environment = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run([script], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("", "")
    return done.returncode, (folder / "calls").read_text().splitlines()


def test_the_script_writes_the_unit_and_starts_it_now_and_at_each_boot(tmp_path: Path) -> None:
    status, calls = run_script(tmp_path, "exit 0")
    assert (status, calls) == (0, ["daemon-reload", "enable --now tandem-mps.service"])
    assert (tmp_path / "tandem-mps.service").read_text() == unit()


@pytest.mark.parametrize("failing", ["daemon-reload", "enable"])
def test_a_step_that_fails_ends_the_script(tmp_path: Path, failing: str) -> None:
    status, calls = run_script(tmp_path, f'[ "$1" != {failing} ]')
    assert (status, calls[-1].split()[0]) == (1, failing)


def settings() -> dict[str, list[str]]:
    """The unit's settings by name."""
    found: dict[str, list[str]] = {}
    for line in unit().splitlines():
        name, equals, value = line.partition("=")
        if equals:
            found.setdefault(name, []).append(value)
    return found


@pytest.mark.slow
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not on PATH")
    file = tmp_path / "tandem-mps.service"
    # It requires the program.
    file.write_text(unit().replace(PROGRAM, sys.executable))
    done = subprocess.run([analyze, "verify", file], capture_output=True, text=True, check=False)
    # It ends with 0 in spite of a misspelt setting.
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.real_world(
    behaviour="Amazon ECS runs the MPS daemon of its GPU nodes by such a unit, with a directory of its own below /run",
    source="amazon-ecs-ami a2532d35, scripts/al2023/gpu/nvidia-mps.service",
)
def test_the_unit_has_the_settings_of_amazons() -> None:
    theirs = {
        "Wants": ["nvidia-kmod-load.service"],
        "After": ["nvidia-kmod-load.service"],
        "ConditionPathExists": ["/usr/bin/nvidia-cuda-mps-control"],
        "Type": ["exec"],
        "ExecStart": ["/usr/bin/nvidia-cuda-mps-control -f -multiuser-server"],
        "Restart": ["always"],
        "RestartSec": ["1"],
        "WantedBy": ["multi-user.target"],
    }
    ours = settings()
    assert {name: ours[name] for name in theirs} == theirs
    assert ours["Environment"] == ["CUDA_MPS_PIPE_DIRECTORY=/run/tandem-mps"]


@pytest.mark.real_world(
    behaviour="systemd removes a unit's RuntimeDirectory when the unit stops, and gives up after five starts in ten "
    "seconds; pods would keep the removed directory",
    source="man systemd.exec, RuntimeDirectoryPreserve; man systemd.unit, StartLimitIntervalSec (systemd 252)",
)
def test_the_daemon_starts_before_the_pods_and_its_directory_outlives_every_restart() -> None:
    ours = settings()
    assert (ours["RuntimeDirectory"], ours["RuntimeDirectoryPreserve"]) == (["tandem-mps"], ["yes"])
    assert ours["StartLimitIntervalSec"] == ["0"]
    # nodeadm starts the kubelet, and waits for cloud-init, which waits for the script that starts this unit.
    assert ours["Before"] == ["nodeadm-run.service kubelet.service"]
