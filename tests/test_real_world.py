"""The table of real-world behaviours has every marker; a marker that it cannot read is an error."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def real_world() -> ModuleType:
    spec = importlib.util.spec_from_file_location("real_world", ROOT / "docs" / "real_world.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def marked(arguments: str, test: str = "def test_it() -> None: ...") -> str:
    return f"@pytest.mark.real_world({arguments})\n{test}\n"


def test_a_marker_on_a_function_or_in_a_class_becomes_a_row(real_world: ModuleType) -> None:
    inner = '    @pytest.mark.real_world(behaviour="Both", source="x")\n    def test_one(self) -> None: ...'
    text = marked('behaviour="EKS waits", source="eks.go"')
    text += marked('behaviour="EC2 refuses", source="API | CODES"', f"class TestAll:\n{inner}")
    assert sorted(real_world.in_source(text, "tests/test_x.py")) == [
        ("Both", "x", "tests/test_x.py::TestAll::test_one"),
        ("EC2 refuses", "API | CODES", "tests/test_x.py::TestAll"),
        ("EKS waits", "eks.go", "tests/test_x.py::test_it"),
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        'behaviour="EKS waits"',
        'behaviour="EKS waits", source=SOURCE',
        'behaviour="EKS waits", source=f"{GUIDE}x"',
        'behaviour="EKS waits", source=" "',
        'behaviour="EKS waits", source="x", since="1.36"',
        '"EKS waits", source="x", behaviour="y"',
        '**{"behaviour": "EKS waits", "source": "x"}',
    ],
)
def test_a_marker_without_literal_text_is_an_error(real_world: ModuleType, arguments: str) -> None:
    with pytest.raises(ValueError, match=r"tests/test_x.py:1: marker real_world has no literal text. Write @pytest"):
        list(real_world.in_source(marked(arguments), "tests/test_x.py"))


def test_a_marker_that_is_no_decorator_is_an_error(real_world: ModuleType) -> None:
    text = 'pytestmark = pytest.mark.real_world(behaviour="EKS waits", source="x")\n'
    with pytest.raises(ValueError, match=r"tests/test_x.py:1: marker real_world"):
        list(real_world.in_source(text, "tests/test_x.py"))


def test_rows_may_come_in_any_order_and_none_may_be_missing_or_old(real_world: ModuleType) -> None:
    assert real_world.is_same("head\na\nb\n", "head\nb\na\n")
    assert not real_world.is_same("head\na\n", "head\na\nb\n")
    assert not real_world.is_same("head\na\na\n", "head\na\n")
