"""Stacks that were never deployed, and copies of deployed stacks."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sharing.files import lock
from tandem.sandbox.pulumi import NoPulumiError, executable
from tests.engine.emulated import QUICK, Raise, Stack
from tests.engine.forks import make_python
from tests.shipped import STACKS

LONGEST = ("test_faults.py", "test_own_limits.py", "test_switch.py", "test_updates.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starts the longest first, so that no worker runs one of them last while the others are idle."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


@pytest.fixture(scope="session")
def pulumi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Skips where there is no engine. Its programs are forks, and its `pip` answers at once."""
    try:
        executable()
    except NoPulumiError as reason:
        pytest.skip(str(reason).split(". ")[0])
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv("PYTHONPATH", str(QUICK))
        prefix = stack.enter_context(make_python(tmp_path_factory.mktemp("python")))
        patch.setattr("tandem.sandbox.pulumi.sys", SimpleNamespace(prefix=str(prefix)))
        yield


@pytest.fixture(scope="session")
def nothing(pulumi: None, tmp_path_factory: pytest.TempPathFactory) -> Raise:
    """A stack that was never deployed; given sections replace those of its file."""

    def prepare(name: str, sections: Mapping[str, Any] | None = None, folder: Path | None = None) -> Stack:
        return Stack.new(folder or tmp_path_factory.mktemp(name), name, sections or {})

    return prepare


@pytest.fixture(scope="session")
def raised(nothing: Raise, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Raise:
    """A deployed stack: one worker deploys it, and each caller gets a copy."""
    workers = tmp_path_factory.getbasetemp()
    originals = (workers if worker_id == "master" else workers.parent) / "originals"
    originals.mkdir(exist_ok=True)

    def bring_up(name: str, sections: Mapping[str, Any] | None = None) -> Stack:
        key = json.dumps(sections or {}, sort_keys=True)
        folder = originals / f"{name}-{sha256(key.encode()).hexdigest()[:12]}"
        with lock(folder.with_suffix(".lock"), wait=True):
            if not folder.is_dir():
                making = tmp_path_factory.mktemp(name)
                stack = nothing(name, sections, making)
                stack.comes_up()
                making.rename(folder)
        return Stack(folder, name).copied_to(tmp_path_factory.mktemp(name))

    return bring_up


@pytest.fixture(params=STACKS)
def any_stack(request: pytest.FixtureRequest) -> str:
    return str(request.param)
