"""The state file: written completely or not at all, used by one process at a time, and never reset silently."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from sandbox.world import CloudError, StateError, World, tokens
from sandbox.world.entities import Entities, Entity, Event, GpuState, Process
from sandbox.world.rules.rule import DELETE, Rule
from sandbox.world.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "world.json"


def test_everything_that_outlives_a_process_is_read_as_it_was_written(path: Path) -> None:
    key = (tokens.POD, "m/1")
    entity = Entity(
        type=key[0],
        id=key[1],
        name="1",
        inputs={"a": 1},
        outputs={"b": [2]},
        made_by="helm",
        owner=(tokens.RELEASE, "m"),
        cluster="https://c",
        serial=7,
        provider={"region": "r"},
        status="DEGRADED",
    )
    whole = Entities(
        [entity],
        serial=9,
        recycled={"g": 2},
        quotas={"L-1": 4},
        peaks={"L-1": 3},
        buried={key: "https://c"},
        journal=[Event(kind="mode", node="n", config="after", who="m/1", before="before")],
        offers={"g6.xlarge": ["a"]},
        templates={"lt-1": {"version": 2}},
        gpus={"n": GpuState(template="t", lost_shares=True, config="after", clash="a, b")},
        processes={"m/1": Process(node="n", config="after", is_mps=True)},
    )
    store = Store(path)
    store.save(whole)
    store.close()
    with pytest.raises(StateError, match=r"was closed\."):
        store.save(whole)
    read = Store(path).load()
    assert read == whole
    assert [*read] == [entity]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "not valid JSON"),
        (b"\xff\xfe\x00", "not valid JSON"),
        (b'{"format": "tandem sandbox world", "version": 1, "thi', "is not valid JSON"),
        (b"[]", "not a state file of the sandbox"),
        (b'{"resources": []}', "not a state file of the sandbox"),
        (b'{"format": "tandem sandbox world", "version": 99}', "another version of tandem.*99"),
        (b'{"format": "tandem sandbox world", "version": 1, "serial": 1}', "is incomplete"),
        (
            b'{"format":"tandem sandbox world","version":1,"serial":1,"things":[{}],"buried":[],"recycled":{}}',
            "is incomplete",
        ),
    ],
)
def test_an_unusable_state_is_named_and_not_changed(path: Path, text: bytes, words: str) -> None:
    path.parent.mkdir()
    path.write_bytes(text)
    errors = []  # no error keeps the lock
    for _ in range(2):
        with pytest.raises(StateError, match=words) as caught:
            World(path)
        errors.append(caught.value)
        assert str(path) in str(caught.value)
        assert "mv " in str(caught.value)
    assert path.read_bytes() == text


def test_an_error_shows_why_a_state_cannot_be_read(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(StateError, match=r"world\.json cannot be read \(Is a directory\)\."):
        World(path)


def test_only_one_process_at_a_time_uses_a_state(path: Path) -> None:
    """The lock belongs to an open file, and ends with it (flock(2)), also if the process is killed."""
    held = World(path)
    with pytest.raises(StateError, match=rf"in use by process {os.getpid()}\.") as caught:
        World(path)
    assert str(path) in str(caught.value)
    held.close()
    World(path).close()


def test_the_lock_has_only_the_number_of_its_last_holder(path: Path) -> None:
    lock = path.with_name("world.json.lock")
    lock.parent.mkdir()
    lock.write_text("123456789012")
    Store(path).close()
    assert lock.read_text() == str(os.getpid())


def test_each_call_is_in_the_file_when_it_returns(path: Path) -> None:
    def read() -> list[dict[str, Any]]:
        return [one["inputs"] for one in json.loads(path.read_text())["things"]]

    world = World(path, patience=0.0)
    identity, _ = world.create(tokens.VPC, "v", {"cidrBlock": "10.0.0.0/16"}, {})
    assert read() == [{"cidrBlock": "10.0.0.0/16"}]
    world.update(tokens.VPC, identity, {"cidrBlock": "10.1.0.0/16"})
    assert read() == [{"cidrBlock": "10.1.0.0/16"}]
    rules, change = world.rules, {"tags": {"left": "behind"}}
    late = Rule(
        (tokens.VPC,), DELETE, "Timeout", "", lambda _: "late", lambda case: case.existing.inputs.update(change)
    )
    world.rules = (late,)
    with pytest.raises(CloudError, match="late"):
        world.delete(tokens.VPC, identity)
    assert read() == [{"cidrBlock": "10.1.0.0/16", **change}]
    world.rules = rules
    with world.changing() as entities:
        entities.of(tokens.VPC)[0].inputs = {}
    assert read() == [{}]
    world.delete(tokens.VPC, identity)
    assert read() == []
    world.close()


def test_many_threads_lose_no_change(path: Path) -> None:
    world = World(path)
    threads = [
        threading.Thread(target=lambda: [world.create(tokens.VPC, "v", {}, {}) for _ in range(4)]) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    world.close()
    assert len(World(path).entities()) == 20
