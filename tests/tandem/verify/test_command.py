"""The commands that read a cluster, as far as they get without one, and the text of a verdict."""

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tandem.terminal import progress
from tandem.verify import screen
from tandem.verify.verify import Verdict
from tests.command import Printed
from tests.tandem.deployed.fake_kubernetes import FakeKubernetes
from tests.tandem.seen import ROOT, checks, facts, node, pending, pod


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "package", "extras"),
    [
        ("verify", "kr8s", "cluster"),
        ("verify", "httpx", "cluster"),
        ("watch", "kr8s", "cluster"),
        ("chat", "kr8s", "ollama,cluster"),
        ("chat", "httpx", "ollama,cluster"),
        ("bench", "kr8s", "ollama,cluster"),
        ("bench", "httpx", "ollama,cluster"),
    ],
)
def test_a_missing_extra_is_named(command: str, package: str, extras: str, tmp_path: Path) -> None:
    call = [command, str(ROOT / "Pulumi.dev.yaml"), "--kubeconfig", str(FakeKubernetes().kubeconfig(tmp_path))]
    program = f"import sys; sys.modules[{package!r}] = None; from tandem.main import main; sys.exit(main({call!r}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    install = f"`.venv/bin/python -m pip install --no-build-isolation -e '.[{extras}]'`"
    assert done.stderr == f"error: `tandem {command}` needs {package}. Run {install} in the checkout.\n"


LONG = "ip-10-0-123-234.ec2.internal"


def test_a_verdict_fits_a_terminal_of_40_columns() -> None:
    words = "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint(s)"
    nodes = [node(LONG, labels={"nvidia.com/gpu.replicas": "4"})]
    seen = replace(facts(), nodes=nodes, pods=[pod("llama2-7b", on=LONG), pending("mistral-7b", words)])
    broken = Verdict(stack="timeslice", cluster="api.example", checks=list(checks(seen).values()), waited_s=0)
    out = io.StringIO()
    screen.verdict(broken, Console(file=out, width=40, force_terminal=True, color_system=None, highlight=False))
    assert max(len(line.rstrip()) for line in out.getvalue().splitlines()) <= 40
    assert f"pool gpu, gpu.replicas: expected 2, found 4 on {LONG}" in " ".join(out.getvalue().split())
    assert "…" not in out.getvalue()


def test_progress_without_a_terminal_prints_each_message_once(capsys: Printed) -> None:
    with progress(quiet=False) as tell:
        for text in ("one", "one", "two"):
            tell(text)
    with progress(quiet=True) as tell:
        tell("three")
    assert capsys.readouterr().err == "one\ntwo\n"
