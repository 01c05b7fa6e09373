"""A stack that a command reaches through the Kubernetes API: its pods' ports lead to servers of this machine."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tandem.deployed.fake_kubernetes import APPS, CORE, FakeKubernetes, serving
from tests.tandem.fake_ollama import FakeOllama
from tests.tandem.seen import ROOT, deployment, pod

PODS, DEPLOYMENTS = f"{CORE}/namespaces/ollama/pods", f"{APPS}/namespaces/ollama/deployments"
INTERCEPTOR = f"{CORE}/namespaces/keda/pods"


@dataclass
class Reachable:
    """A stack and its cluster."""

    file: Path
    kubernetes: FakeKubernetes
    kubeconfig: Path

    @property
    def way(self) -> tuple[str, ...]:
        """The words that lead a command to the cluster."""
        return ("--kubeconfig", str(self.kubeconfig))

    def environment(self) -> dict[str, str]:
        """The environment of a reader whose `tandem` has the way to the cluster, as Pulumi's outputs would show it."""
        program = self.file.parent / "bin" / "tandem"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tandem "$@" {" ".join(self.way)}\n', encoding="utf-8")
        program.chmod(0o755)
        return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    def runs(self, *models: str, replicas: int = 1) -> None:
        """Only these models have a ready pod, of all that are deployed."""
        self.kubernetes.answers[PODS] = {"items": [pod(model, f"{model}-0") for model in models]}
        deployed = [deployment(model) for model in ("llama2-7b", "mistral-7b")]
        for each in deployed:
            each["spec"]["replicas"] = replicas
        self.kubernetes.answers[DEPLOYMENTS] = {"items": deployed}


@contextmanager
def reachable(folder: Path, servers: Mapping[str, FakeOllama], **sections: Any) -> Iterator[Reachable]:
    """The stack `timeslice` with these sections, called `mine`. Each server answers for the pod of its model."""
    values = yaml.safe_load((ROOT / "Pulumi.timeslice.yaml").read_text(encoding="utf-8"))
    values["config"] |= {f"tandem:{name.replace('_', '-')}": content for name, content in sections.items()}
    file = folder / "Pulumi.mine.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    fake = FakeKubernetes()
    with serving(fake):
        found = Reachable(file, fake, fake.kubeconfig(folder))
        found.runs("llama2-7b", "mistral-7b")
        for model, server in servers.items():
            fake.leads[f"{PODS}/{model}-0"] = int(server.url.rpartition(":")[2])
        yield found


class Keyboard:
    """What the user types on a terminal, line by line; a name of an exception is raised."""

    def __init__(self, *lines: str) -> None:
        self._lines = [*lines]

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        line = self._lines.pop(0) if self._lines else ""
        if line == "^C":
            raise KeyboardInterrupt
        return f"{line}\n" if line else ""


def types(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Puts these lines in the place of the keyboard."""
    monkeypatch.setattr(sys, "stdin", Keyboard(*lines))
