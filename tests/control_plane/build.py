"""Builds programs from Go modules once, into the user's cache, for every checkout."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sharing.files import lock
from tests.control_plane.recipe import CERTIFICATE_MAKER, CERTIFICATE_SOURCE, CONTROL_PLANE, Module, Recipe

LAST_LINES = 15
"""Lines of a failed build that are shown: Go prints the error at the end."""


class GoMissingError(RuntimeError):
    """Nothing is built yet, and Go is not installed."""


class BuildError(RuntimeError):
    """A module could not be fetched or built; the text names it, with Go's last lines."""


def cache_folder() -> Path:
    """The folder of built control planes: in the user's cache, so that a fresh clone finds them."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tandem" / "control-plane"


def built(
    tell: Callable[[str], None] = lambda _: None, *, recipe: Recipe = CONTROL_PLANE, cache: Path | None = None
) -> Path:
    """The folder of a recipe's programs; builds them first if needed, in minutes. `tell` gets a line each step.

    If several callers run at once, one builds and the others wait. The folder appears only when it is complete.
    Raises `GoMissingError` or `BuildError`.
    """
    cache = cache or cache_folder()
    folder = cache / recipe.name
    if folder.exists():
        return folder
    go = shutil.which("go")
    if go is None:
        raise GoMissingError("the control plane is built with Go, and `go` is not on the PATH (https://go.dev/dl)")
    cache.mkdir(parents=True, exist_ok=True)
    with lock(cache / f"{recipe.name}.lock", wait=True):
        if not folder.exists():
            for left in cache.glob(f"{recipe.name}.making-*"):  # by a build that was killed
                shutil.rmtree(left)
            _build(go, recipe, folder, tell)
    return folder


def _build(go: str, recipe: Recipe, folder: Path, tell: Callable[[str], None]) -> None:
    making = Path(tempfile.mkdtemp(prefix=f"{folder.name}.making-", dir=folder.parent))
    try:
        programs = making / "programs"
        programs.mkdir()
        for number, module in enumerate(recipe.modules, start=1):
            made = ", ".join(module.programs or module.files)
            tell(f"Building {made} {module.version} ({number} of {len(recipe.modules)})")
            source = making / f"module-{number}"
            source.mkdir()
            _Workshop(go, module, source).make(programs)
        if recipe.certificate_maker:
            _make_certificate_maker(go, programs)
        programs.rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)


@dataclass(frozen=True)
class _Workshop:
    """A Go module of our own that depends on one module and builds its programs."""

    go: str
    module: Module
    folder: Path

    def make(self, programs: Path) -> None:
        if self.module.programs:
            self._write_go_mod()
            self._build_programs(programs)
        for file, parts in self.module.files.items():
            source = Path(self._fetched()["Dir"])
            texts = [(source / part).read_text(encoding="utf-8") for part in parts]
            (programs / file).write_text("\n---\n".join(texts), encoding="utf-8")

    def _build_programs(self, programs: Path) -> None:
        flags = ["-tags", ",".join(self.module.tags)] if self.module.tags else []
        linked = " ".join(["-s", "-w", *(f"-X {key}={value}" for key, value in self.module.variables.items())])
        if len(self.module.programs) == 1:
            [(program, package)] = self.module.programs.items()
            self._run("build", *flags, "-ldflags", linked, "-o", str(programs / program), package)
        else:  # at once: they share most packages
            self._run("build", *flags, "-ldflags", linked, "-o", f"{programs}{os.sep}", *self.module.programs.values())

    def _fetched(self) -> dict[str, Any]:
        """Go's description of the fetched module, with the folder of its files."""
        found: dict[str, Any] = json.loads(
            self._run("mod", "download", "-json", f"{self.module.path}@v{self.module.version}")
        )
        return found

    def _write_go_mod(self) -> None:
        if not self.module.staged:
            self._run("mod", "init", "local/control-plane")
            self._run("get", f"{self.module.path}@v{self.module.version}")
            return
        described: dict[str, Any] = json.loads(self._run("mod", "edit", "-json", self._fetched()["GoMod"]))
        # k8s.io/kubernetes 1.36.3 is released with k8s.io/api 0.36.3 and so on.
        release = f"v0.{self.module.version.partition('.')[2]}"
        lines = [
            "module local/control-plane",
            f"go {described['Go']}",
            f"require {self.module.path} v{self.module.version}",
            *(_replacement(one["Old"]["Path"], one["New"], release) for one in described["Replace"]),
        ]
        (self.folder / "go.mod").write_text("\n".join([*lines, ""]), encoding="utf-8")

    def _run(self, *arguments: str) -> str:
        return _run(self.go, *arguments, making=f"{self.module.path} {self.module.version}", folder=self.folder)


def _replacement(path: str, by: Mapping[str, str], release: str) -> str:
    """A line of go.mod. A folder of the module's repository is replaced by the release of the module in it."""
    if by["Path"].startswith("./staging/"):
        return f"replace {path} => {path} {release}"
    return f"replace {path} => {by['Path']} {by['Version']}"


def _make_certificate_maker(go: str, programs: Path) -> None:
    root = _run(go, "env", "GOROOT", making="Go's own folder", folder=programs).strip()
    source = str(Path(root) / CERTIFICATE_SOURCE)
    _run(go, "build", "-o", CERTIFICATE_MAKER, source, making=CERTIFICATE_MAKER, folder=programs)


def _run(go: str, *arguments: str, making: str, folder: Path) -> str:
    """Runs go and returns what it prints; cgo is off, so that no C compiler is needed."""
    environment = {
        **os.environ, "GOFLAGS": "-mod=mod -buildvcs=false", "GOWORK": "off", "CGO_ENABLED": "0", "GO111MODULE": "on"
    }  # fmt: skip
    done = subprocess.run([go, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-LAST_LINES:]
        shown = "".join(f"\n  {line}" for line in said)
        raise BuildError(f"building {making} failed at `go {arguments[0]}`:{shown}")
    return done.stdout
