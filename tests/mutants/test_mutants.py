"""`make mutants` itself: the faults that it makes and draws, and the tests that it runs for each."""

import ast
import json
import signal
import subprocess
import sys
from pathlib import Path

import coverage
import pytest
from tests.mutants.lines import DATA, TESTS
from tests.mutants.selection import APART, REAPING, Selection, works_apart

from tests.mutants.faults import Mutant, find_mutants
from tests.mutants.sample import SAMPLE, draw, part_of, read_equivalent

ROOT = Path(__file__).resolve().parents[2]


def faults(source: str) -> set[str]:
    """The changed lines of every mutant of a source."""
    text = source.encode()
    return {mutant.change(text)[1] for mutant in find_mutants("a.py", text)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a <= b", {"x = (a < b)"}),
        ("x = a is not b", {"x = (a is b)"}),
        ("x = a < b < c", {"x = (a <= b < c)", "x = (a < b <= c)"}),
        ("x = a and b", {"x = (a or b)"}),
        ("x = not a", {"x = (a)"}),
        ("x = a - b ** c", {"x = (a + b ** c)"}),
        ("x = a // b", {"x = (a * b)"}),
        ("x = 'a' + b", set()),
        ("x = True", {"x = (False)"}),
        ("x = 1", {"x = (2)"}),
        ("x = 30", {"x = (60)"}),
        ("x = f(a, b=c, encoding=True)", {"x = (f(a, encoding=True))"}),
        ("x = {'a': b, **c}", {"x = ({**c})"}),
        ("x = [a, b]", {"x = ([b])", "x = ([a])"}),
        ("x = (a, b)", {"x = ((b,))", "x = ((a,))"}),
        ("x = b if a else c", {"x = b if (not a) else c"}),
        ("x = [a for a in b if a]", {"x = [a for a in b if (not a)]"}),
        ("def f(a: int = 1) -> int:\n    '''Text.'''\n    return a", {"def f(a: int = (2)) -> int:", "return (None)"}),
        ("while a:\n    break", {"while (not a):", "pass"}),
        ("a.b = c\na[b] = c\nd = c\na += c\nf()", {"pass"}),
        ("raise a", {"pass"}),
        ("a, b = c, 1\nassert a == b", {"a, b = c, (2)"}),
        ("def f() -> bool:\n    return False", {"return (True)"}),
        ("if TYPE_CHECKING:\n    f()", set()),
        ("x: dict[str, int] = dict[str, int]\n__all__ = ['a']\n@f(a=1)\ndef g(): ...", set()),
        ("class A:\n    '''Text.'''\n    b: int = 1", {"b: int = (2)"}),
    ],
)
def test_each_kind_of_fault_is_made_and_nothing_else(source: str, expected: set[str]) -> None:
    assert faults(source) == expected


def test_the_lines_after_a_fault_keep_their_numbers() -> None:
    source = b"x = f(\n    a=1,\n    b=[\n        2,\n    ],\n)\ny = 3\n"
    mutants = find_mutants("a.py", source)
    assert {mutant.fault for mutant in mutants} == {"constant", "dropped argument", "dropped element"}
    for mutant in mutants:
        changed = mutant.apply(source)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
        assert changed.count(b"\n") == source.count(b"\n")
        assert mutant.line == 7 or changed.splitlines()[6] == b"y = 3"


@pytest.mark.parametrize(
    ("path", "change", "part"),
    [
        ("tandem/leftovers/clean_up.py", ("run(found)", "pass"), "deletion"),
        ("tandem/aws/ec2.py", ('after=("instances",), slow=True', "after=(), slow=True"), "order"),
        (
            "tandem/aws/ec2.py",
            ('after=("instances",), slow=True', "after=('instances',), slow=False"),
            "deletion",
        ),
        ("components/gpu_cluster/__init__.py", ("f(a, depends_on=[x, y])", "f(a, depends_on=[x])"), "order"),
        ("components/gpu_cluster/__init__.py", ("f(a, depends_on=[x, y])", "f(depends_on=[x, y])"), "components"),
        ("tandem/prices/reading.py", ("x = 1", "x = 2"), "tandem"),
        ("tandem/aws/quota.py", ("x = 1", "x = 2"), "quota"),
        ("sharing/quotas.py", ("x = 1", "x = 2"), "quota"),
        ("sandbox/world/quotas.py", ("x = 1", "x = 2"), "sandbox"),
        ("tandem/sandbox/state.py", ("x = 1", "x = 2"), "recovery"),
    ],
)
def test_code_that_deletes_or_repairs_is_a_part_of_its_own(path: str, change: tuple[str, str], part: str) -> None:
    assert part_of(Mutant(path, "", 1, 1, 0, 0, ""), change) == part


def test_a_seed_draws_the_same_mutants_again(tmp_path: Path) -> None:
    (tmp_path / "sharing").mkdir()
    (tmp_path / "sharing" / "a.py").write_text("\n".join(f"x{i} = {i}" for i in range(500)))
    drawn = list(draw(tmp_path, 7, 200))
    assert len({mutant.line for _, mutant in drawn}) == SAMPLE["sharing"]
    assert drawn == list(draw(tmp_path, 7, 200))
    assert drawn != list(draw(tmp_path, 8, 200))
    assert sum(SAMPLE.values()) == 200


def test_tests_of_the_line_come_first_then_those_of_the_file(tmp_path: Path) -> None:
    data = coverage.CoverageData(str(tmp_path / DATA))
    for context, lines in {"slow": [1], "quick": [1], "fixture shared": [1], "near": [2], "broken": [1]}.items():
        data.set_context(context)
        data.add_lines({"sharing/a.py": lines})
    data.write()
    seconds = {"slow": 9, "quick": 0.1, "user": 1, "near": 0.2, "broken": 0.1, "far": 0.1, "endless": 99}
    uses = {"user": ["shared"], "endless": ["shared"]}
    tests = {name: {"seconds": took, "fixtures": uses.get(name, [])} for name, took in seconds.items()}
    (tmp_path / TESTS).write_text(json.dumps({"tests": tests, "failed": ["broken"]}))
    mutant = Mutant("sharing/a.py", "", 1, 1, 0, 0, "")
    assert Selection(tmp_path).choose(mutant) == ["quick", "user", "slow"]
    del tests["endless"]
    (tmp_path / TESTS).write_text(json.dumps({"tests": tests, "failed": ["broken"]}))
    assert Selection(tmp_path).choose(mutant) == ["quick", "user", "slow", "near"]


def test_before_it_survives_a_mutant_meets_all_tests_of_its_folder_and_beside_those_that_run_it(tmp_path: Path) -> None:
    (tmp_path / "tree" / "tests" / "tandem" / "leftovers").mkdir(parents=True)
    (tmp_path / "tree" / "tests" / "components").mkdir()
    names = ("tandem/leftovers/test_a.py::b", "tandem/test_b.py::b", "components/test_c.py::b", "program/test_d.py::b")
    tests = {f"tests/{name}": {"seconds": 1, "fixtures": []} for name in names}
    (tmp_path / TESTS).write_text(json.dumps({"tests": tests, "failed": []}))
    data = coverage.CoverageData(str(tmp_path / DATA))
    data.set_context("tests/tandem/leftovers/test_z.py::runs_it")
    data.add_lines({"tandem/deployed/aws.py": [1]})
    data.write()
    selection = Selection(tmp_path)

    def more(path: str) -> list[str]:
        chosen = selection.choose_more(Mutant(path, "", 1, 1, 0, 0, ""))
        return [name.removeprefix("tests/") for name in chosen]

    assert more("tandem/leftovers/deletion.py") == ["tandem/leftovers/test_a.py::b"]
    assert more("components/karpenter/a.py") == ["components/test_c.py::b", "program/test_d.py::b"]
    (tmp_path / "tree" / "tests" / "tandem" / "deployed").mkdir()
    assert more("tandem/deployed/aws.py") == ["tandem/leftovers/test_a.py::b"]


def test_the_run_ends_although_unshare_ignores_sigterm(tmp_path: Path) -> None:
    if not works_apart():
        pytest.skip("`unshare` does not work here")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "tests").symlink_to(ROOT / "tests")
    (tmp_path / TESTS).write_text(json.dumps({"tests": {}, "failed": []}))
    with Selection(tmp_path) as selection:
        suite = selection._suite
    assert suite.returncode == -signal.SIGKILL


def test_every_equivalent_mutant_is_still_one_and_has_a_reason() -> None:
    known = read_equivalent()
    for path, before, after in known:
        source = (ROOT / path).read_bytes()
        assert (before, after) in {mutant.change(source) for mutant in find_mutants(path, source)}, before
    assert all(len(reason.split()) > 3 for reason in known.values())


def test_a_program_that_runs_apart_sees_only_its_own_processes() -> None:
    if not works_apart():
        pytest.skip("`unshare` does not work here")
    listing = "import os; print(*sorted(filter(str.isdigit, os.listdir('/proc'))))"
    seen = subprocess.run([*APART, *REAPING, sys.executable, "-c", listing], check=True, capture_output=True, text=True)
    assert seen.stdout == "1 2\n"
