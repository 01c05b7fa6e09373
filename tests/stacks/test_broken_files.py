"""Stack files as people break them: all errors are reported at once, with the file's own paths, and nothing else."""

import contextlib
import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sharing.sections.config import SECTIONS
from stacks.stack_file.errors import UnreadableError
from stacks.stack_file.judge import judge, judge_file
from stacks.stack_file.yaml import Source, decode, parse
from tandem.main import main
from tests.rows import read_yaml

GOOD = {
    "aws:region": "us-east-1",
    "tandem:sharing": "{mode: timeslice, replicas: 2}",
    "tandem:gpu-nodes": "{instance-types: [g4dn.xlarge], desired: 1, max: 1}",
    "tandem:models": '[{name: "llama2:7b", context: 2048}, {name: "mistral:7b", context: 2048}]',
}
TINY = '{name: "qwen2.5:0.5b"}'


def stack(text: str = "", /, **changed: str | None) -> str:
    """A good stack file with these values changed (None: left out), and `text` after it."""
    keys = {"region": "aws:region"}
    values: dict[str, str | None] = {
        **GOOD,
        **{keys.get(key, "tandem:" + key.replace("_", "-")): value for key, value in changed.items()},
    }
    lines = [f"  {key}: {value}\n" for key, value in values.items() if value is not None]
    return "config:\n" + "".join(lines) + text


def models(*more: str) -> str:
    return f"[{', '.join(more)}]"


def tags(count: int, prefix: str = "key") -> str:
    return f"{{{', '.join(f'{prefix}{number}: v' for number in range(count))}}}"


Expected = list[tuple[str, str]]
BROKEN: dict[str, tuple[str, Expected]] = {
    # Large files; the others are in the table.
    "too many models": (stack(models=models(*[TINY] * 65)), [("models", "at most 64 entries, not a list of 65")]),
    "too many pools": (
        stack(gpu_nodes=models(*[f"{{name: p{number}}}" for number in range(11)])),
        [("gpu-nodes", "must have at most 10 entries, not a list of 11. Remove some")],
    ),
    "too many tags": (
        stack("  aws:defaultTags: {tags: " + tags(30, "default") + "}\n", tags=tags(30)),
        [("tags", "must have at most 42 entries, not 60 with those of `aws:defaultTags.tags`. AWS allows 50 on a")],
    ),
    "too many default tags": (
        stack("  aws:defaultTags: {tags: " + tags(43, "default") + "}\n"),
        [
            (
                "aws:defaultTags.tags",
                "not 43. AWS allows 50 on a resource, and tandem and AWS add 8 to a node. Remove 1.",
            )
        ],
    ),
    "too many labels": (
        stack(models_clients=f"{{labels: {tags(21)}}}"),
        [("models-clients.labels", "must have at most 20 entries, not a mapping of 21.")],
    ),
    "an instance type of 70,000 characters": (
        stack(gpu_nodes=f"{{instance-types: [{'x' * 70_000}]}}"),
        [("gpu-nodes.instance-types[0]", "unknown GPU instance type 'xxx")],
    ),
    "huge number": (
        stack(sharing="{mode: mps, replicas: 1" + "0" * 390 + "}"),
        [("sharing.replicas", f"must be at most 48, not 1{'0' * 59}…")],
    ),
    "number beyond Python": (
        stack(sharing="{mode: mps, replicas: 1" + "0" * 5000 + "}"),
        [("sharing.replicas", "must be a whole number, not '1000")],
    ),
    "JSON text of 100,000 lists": (
        stack(sharing=f"'{'[' * 100_000}{']' * 100_000}'"),
        [("sharing", "must be a mapping, not '[[[")],
    ),
    "long text": (stack(sharing=f"{{mode: {'x' * 61}}}"), [("sharing.mode", f"unknown mode '{'x' * 60}…'")]),
    "text in a line": (stack(sharing=f"{{mode: {'x' * 60}}}"), [("sharing.mode", f"unknown mode '{'x' * 60}'")]),
}
for name, row in read_yaml(Path(__file__).parent / "broken_files.yaml").items():
    said = row.pop("errors").items()
    shown = [(path, part) for path, parts in said for part in ([parts] if isinstance(parts, str) else parts)]
    BROKEN[name] = (row["file"] if "file" in row else stack(row.pop("after", ""), **row), shown)

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)
UNREADABLE: dict[str, tuple[str | bytes, str]] = {
    "not YAML": ("@@@ :\n", "found a character that cannot begin a value (tab, @, ` or %) (line 1, column 1)"),
    "tabs": ("config:\n\taws:region: us-east-1\n", "(line 2, column 1)"),
    "unbalanced brackets": ("config: {a: [1, 2}\n", "did not find expected ',' or ']' (line 1, column 18)"),
    "unclosed quote": ('config: "abc\n', "unexpected end of stream"),
    "wrong escape": ('config: "\\q"\n', "unknown escape character"),
    "two documents": ("config: {}\n---\nconfig: {}\n", "it holds more than one document (line 2, column 1)"),
    "unknown alias": ("config: *nobody\n", "found undefined alias"),
    "list as a key": (stack("  [a]: b\n"), "a key is a list or a mapping (line 6, column 3)"),
    "merge of a number": (stack(sharing="{<<: 5}"), "expected a mapping"),
    "NUL": ("config:\0 x\n", "control characters are not allowed"),
    "binary": (bytes(range(256)), "is not UTF-8 text (byte 128)"),
    "Latin-1": (b"# caf\xe9\nconfig: {}\n", "is not UTF-8 text (byte 5). Save it as UTF-8."),
    "UTF-16": (stack().encode("utf-16"), "is not UTF-8 text (byte 0)"),
    "lone surrogate": ('config: "\\ud800"\n', "invalid Unicode character escape code"),
    "billion laughs": (LAUGHS, "more than 20,000 values, including aliases"),
    "alias of itself": ("config: &a {b: *a}\n", "an alias in the file contains itself"),
    "100,000 lists": ("config: " + "[" * 100_000 + "]" * 100_000 + "\n", "is nested too deeply"),
    "100,000 open lists": ("config: " + "[" * 100_000, "is nested too deeply"),
    "50,000 mappings": ("{a: " * 50_000, "is nested too deeply"),
    "30,000 dashes": ("- " * 30_000 + "x\n", "is nested too deeply"),
    "a long list": (f"config: [{'1,' * 60_000}]\n", "more than 20,000 values"),
    "10 MB": ("#" * 10_000_000, "is larger than 256 KiB"),
    "a Python object": ("config: !!python/object/apply:os.abort []\n", "uses the tag !!python/object/apply:os.abort"),
    "a binary tag": (stack(models="!!binary aGVsbG8="), "uses the tag !!binary (line 5, column 18)"),
    "a set": (stack(models="!!set {a, b}"), "uses the tag !!set"),
    "a tag of one's own": (stack(sharing="!custom {mode: mps}"), "uses the tag !custom"),
    "a wrong tag": (stack(cluster="{logs: !!bool maybe}"), "uses the tag !!bool"),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "Pulumi.broken.yaml"


def write(file: Path, content: str | bytes) -> Path:
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


@pytest.mark.parametrize("name", BROKEN)
def test_all_errors_of_a_file_and_nothing_else_are_reported_with_rule_and_fix(name: str, file: Path) -> None:
    text, expected = BROKEN[name]
    problems = judge_file(write(file, text)).problems
    missed = [each for each in expected if not any(p.path == each[0] and each[1] in str(p) for p in problems)]
    assert not missed, [str(problem) for problem in problems]
    assert sorted(p.path for p in problems) == sorted(path for path, _ in expected), [str(p) for p in problems]
    for problem in problems:
        assert problem.rule, problem
        assert problem.fix.endswith((".", "?")), problem
        assert len(str(problem)) < 500, problem
        assert not problem.found or (problem.place and problem.place.line), problem


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_is_no_yaml_is_unreadable_for_a_reason(name: str, file: Path) -> None:
    content, expected = UNREADABLE[name]
    with pytest.raises(UnreadableError) as unreadable:
        judge_file(write(file, content))
    assert expected in str(unreadable.value)
    assert "\n" not in str(unreadable.value)


def test_an_unreadable_file_ends_the_command_with_2_also_as_json(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(file, "config: *nobody\n")
    assert main(["plan", str(file)]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith("error: Pulumi.broken.yaml cannot be read as YAML: found undefined alias")
    assert main(["plan", str(file), "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert (f"error: {report['error']}\n", report["problems"]) == (said.err, [])


def test_a_file_without_permission_is_unreadable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", denied)
    with pytest.raises(UnreadableError, match="cannot be read: Permission denied"):
        judge_file(write(file, stack()))


LARGEST = "#" * (256 * 1024 - len(stack()) - 1) + "\n"


@pytest.mark.parametrize("before", ["\ufeff", "---\n", "%YAML 1.1\n---\n", "# caf\u00e9\n", LARGEST])
def test_a_good_file_may_begin_in_many_ways(before: str, file: Path) -> None:
    assert judge_file(write(file, before + stack())).problems == ()


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", "yes"),
        ("on", "on"),
        ("True", True),
        ("1:30", "1:30"),
        ("1e3", 1000.0),
        ("1_000", 1000),
        ("010", 8),
        ("0o17", 15),
        ("0x10", 16),
        ("0b1_0", 2),
        ("0b_", "0b_"),
        ("0o_", "0o_"),
        # Python shows no whole number of more than 4,300 digits.
        *((f"{begin}{'1' * 401}", f"{begin}{'1' * 401}") for begin in ("", "0b", "0", "0x")),
        ("2026-11-21", "2026-11-21"),
        *((null, None) for null in ("~", "null", "Null", "NULL")),
        (".5", 0.5),
        ("=", "="),
        ("1.2.3", "1.2.3"),
    ],
)
def test_plain_values_are_read_as_pulumi_reads_them(written: str, value: object) -> None:
    sections = parse(f"config:\n  aws:region: {written}\n", "x", SECTIONS)
    assert sections.region == value
    assert type(sections.region) is type(value)


def test_aliases_and_merge_keys_are_read() -> None:
    text = stack(models="[&one {name: 'qwen2.5:0.5b', context: 512}, {<<: *one, context: 1024}]")
    models_read = parse(text, "x", SECTIONS).sections["models"]
    assert [model["context"] for model in models_read] == [512, 1024]


def test_a_file_and_a_text_of_pulumis_may_be_nested_to_the_limit() -> None:
    """100 levels; in a file, two mappings are among them. `pulumi config set` writes a list as text."""
    text, nested = (
        "config:\n  tandem:tags: {}\n",
        {levels: "[" * levels + "]" * levels for levels in (98, 99, 100)},
    )
    assert parse(text.format(nested[98]), "x", SECTIONS).sections["tags"]
    with pytest.raises(UnreadableError, match="more than 100 levels"):
        parse(text.format(nested[99]), "x", SECTIONS)
    too_deep = f"[[],{nested[100]}]"
    assert (type(decode(nested[100])), decode(too_deep)) == (list, too_deep)


def test_values_of_other_projects_are_ignored(file: Path) -> None:
    extra = "  aws:profile: me\n  kubernetes:context: x\n  other:token: {secure: AAAB}\n"
    # All keys of a stack file: pulumi 3.260 sdk/go/common/workspace/project.go, ProjectStack.
    own = "secretsprovider: x\nencryptedkey: x\nencryptionsalt: v1\nenvironment: [x]\n"
    assert judge_file(write(file, stack(extra + own))).problems == ()


def test_a_file_may_have_as_many_values_as_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key, value, list and mapping is one, and that of an alias again."""
    text = "config: {a: &a [x], b: *a}\n"
    monkeypatch.setattr("stacks.stack_file.yaml.MOST_NODES", 9)
    assert parse(text, "x", SECTIONS)
    monkeypatch.setattr("stacks.stack_file.yaml.MOST_NODES", 8)
    with pytest.raises(UnreadableError, match="more than 8 values, including aliases"):
        parse(text, "x", SECTIONS)


GOOD_TEXT = stack(
    cluster='{kubernetes: "1.36", cidr: 10.0.0.0/16, system-nodes: {instance-types: [t3.medium], count: 1}}',
    budget="{max-usd-per-hour: 2}",
    tags="{team: blue}",
)
GOOD_TREE: dict[str, Any] = yaml.safe_load(GOOD_TEXT)
SEVERAL_TREE: dict[str, Any] = yaml.safe_load(
    stack(
        gpu_nodes="[{name: fast, desired: 1, sharing: {mode: mps, replicas: 2}}, {name: rest, min: 0, max: 2}]",
        models='[{name: "llama2:7b", pool: fast}, {name: "mistral:7b", pool: rest}]',
    )
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(["llama2:7b", "mps", "g5.xlarge", "0.5", "1.36", "true", "secure"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
TEXTS = st.text(max_size=8) | st.text(alphabet="[]{}:-&*!|>'\"%@`#,? \n\tab1<=", max_size=60)


def places(tree: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path in the tree except the root."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [place for key, value in items for place in ((*above, key), *places(value, (*above, key)))]


def judged(file: Path) -> None:
    """The file is accepted, refused with every problem, or unreadable; nothing else is raised."""
    with contextlib.suppress(UnreadableError):
        found = judge_file(file)
        assert all(problem.rule for problem in found.problems)
        assert bool(found.refusal) is found.refused


@pytest.mark.slow
@settings(max_examples=120)
@given(data=st.data())
def test_no_changed_tree_ends_in_a_traceback(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    tree = copy.deepcopy(data.draw(st.sampled_from([GOOD_TREE, SEVERAL_TREE])))
    for _ in range(data.draw(st.integers(1, 3))):
        *above, last = data.draw(st.sampled_from(places(tree)))
        parent = tree
        for part in above:
            parent = parent[part]
        change = data.draw(st.sampled_from(["delete", "replace", "add"]))
        if change == "delete" and len(tree["config"]) > 1:
            del parent[last]
        elif change == "add" and isinstance(parent, dict):
            parent[data.draw(SCALARS.filter(lambda key: key == key))] = data.draw(VALUES)
        else:
            parent[last] = data.draw(VALUES)
        if not isinstance(tree.get("config"), dict):
            break
    file = tmp_path_factory.getbasetemp() / "Pulumi.changed.yaml"
    file.write_text(yaml.safe_dump(tree, allow_unicode=True), encoding="utf-8", errors="replace")
    judged(file)


@pytest.mark.slow
@settings(max_examples=200)
@given(at=st.integers(0, len(GOOD_TEXT)), cut=st.integers(0, 30) | st.just(len(GOOD_TEXT)), put=TEXTS)
def test_no_changed_text_ends_in_a_traceback(
    at: int, cut: int, put: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "Pulumi.text.yaml"
    file.write_text(GOOD_TEXT[:at] + put + GOOD_TEXT[at + cut :], encoding="utf-8", errors="replace")
    judged(file)


@pytest.mark.slow
@settings(max_examples=80)
@given(sections=st.dictionaries(st.sampled_from(SECTIONS), VALUES), region=VALUES)
def test_no_values_from_pulumi_end_in_a_traceback(sections: dict[str, Any], region: object) -> None:
    reading = judge(Source(sections, {"aws:region": region}), "Pulumi.x.yaml")
    assert all(str(problem) for problem in reading.problems)
