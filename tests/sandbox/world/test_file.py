"""The world's state file: whole or not at all, one process at a time, and never reset silently."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sandbox.world import StateError, World, tokens
from tests.sandbox.world_pieces import Account


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "world.json"


def test_what_was_made_is_there_in_the_next_process(path: Path) -> None:
    account = Account(World(path, patience=0.0))
    account.cluster()
    account.nodes()
    before = account.world.things()
    account.world.close()
    world = World(path)
    assert world.things() == before
    account.world = world
    account.change(tokens.NODE_GROUP, "c:system", releaseVersion="later")
    world.close()
    assert World(path).recycled == {"system": 1}


def test_ids_stay_unique_over_processes(path: Path) -> None:
    ids = set()
    for _ in range(3):
        world = World(path)
        ids.add(world.create(tokens.VPC, "v", {}, {})[0])
        world.close()
    assert len(ids) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ('{"format": "tandem sandbox world", "version": 1, "thi', "half-written"),
        ("[]", "no state of the sandbox"),
        ('{"resources": []}', "no state of the sandbox"),
        ('{"format": "tandem sandbox world", "version": 99}', "another version of tandem.*99"),
        ('{"format": "tandem sandbox world", "version": 1, "serial": 1}', "lacks parts"),
        (
            '{"format":"tandem sandbox world","version":1,"serial":1,"things":[{}],"buried":[],"recycled":{}}',
            "lacks parts",
        ),
    ],
)
def test_a_state_that_cannot_be_used_is_named_and_left_alone(path: Path, text: str, words: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    for _ in range(2):
        with pytest.raises(StateError, match=words) as caught:
            World(path)
        assert str(path) in str(caught.value)
        assert "mv " in str(caught.value)
    assert path.read_text() == text


def test_a_state_that_is_no_text_is_named(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StateError, match="not JSON"):
        World(path)


def test_a_state_has_one_process_at_a_time(path: Path) -> None:
    opening = f"import sys, pathlib, sandbox.world as w; opened = w.World(pathlib.Path({str(path)!r}))"
    code = f"{opening}; print(1, flush=True); sys.stdin.read()"
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "1\n"
    with pytest.raises(StateError, match=rf"in use by process {other.pid}") as caught:
        World(path)
    assert str(path) in str(caught.value)
    # A process that was killed leaves no lock behind.
    other.kill()
    other.communicate()
    World(path).close()


def test_a_closed_world_refuses_to_forget(path: Path) -> None:
    world = World(path)
    world.close()
    with pytest.raises(StateError, match="closed"):
        world.create(tokens.VPC, "v", {}, {})


def test_many_threads_lose_nothing(path: Path) -> None:
    world = World(path)
    threads = [
        threading.Thread(target=lambda: [world.create(tokens.VPC, "v", {}, {}) for _ in range(10)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    world.close()
    assert len(World(path).things()) == 80
