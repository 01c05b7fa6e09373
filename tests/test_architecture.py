"""The structure of the code: which package may import which, which reads Pulumi's config, where versions are."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
MAY_IMPORT = {
    "sharing": set(),
    "catalogue": {"sharing"},
    "components": {"sharing"},
    "plugin": {"components", "sharing"},
    "stacks": {"components", "sharing"},
    "sandbox": {"sharing"},
    "policy": {"sharing"},
    "tandem": {"sandbox", "stacks", "components", "sharing"},
}
"""The packages that each package may import; `sharing` imports nothing of ours."""
FLOORS = (
    {"arguments", "artifacts", "files", "names", "printable", "problems", "section", "tables", "versions", "aws"},
    {"hardware", "models", "schedule"},
    {"modes", "speed"},
    {"sections"},
    {"fit", "cost"},
    {"existing"},
    {"verdict"},
)
"""The floors of `sharing`, from the ground: a room imports rooms of lower floors only."""
SHARED = (
    "installation",
    "markdown",
    "svg",
    "terminal",
    "columns",
    "arguments",
    "lookup",
    "price_cache",
    "dry_run",
    "plan_json",
    "search",
    "bench_results",
    "aws",
    "deployed",
)
"""The packages that several commands of `tandem` share: each imports only those before it."""
IN_SANDBOX = {
    "cloud": {"cloud"},
    "preview": {"cloud", "preview"},
    "world": {"cloud", "world"},
    "engine": {"cloud", "world", "engine"},
}
"""The packages that each package of `sandbox` may import, besides `sandbox.graph` and `sandbox.wire`."""
FLOORS_OF_THE_WORLD = (
    {"tables", "tokens", "durations"},
    {"entities"},
    {"providers", "controllers", "foreign", "store"},
    {"rules"},
    {"world"},
)
"""The floors of `sandbox.world`, from the ground: a room imports rooms of lower floors only."""
MOST_LINES = 400
WITHOUT_PULUMI = (
    "tandem",
    "sharing.verdict.full",
    "sharing.names",
    "sharing.versions",
    "stacks.stack_file.check",
    "stacks.stack_file.judge",
    "tandem.arguments",
    "tandem.main",
    "tandem.plan.command",
    "tandem.lookup",
    "tandem.dry_run.program",
    "tandem.terminal",
)
HEAVY = ("pulumi", "rich", "boto3", "httpx", "httpcore", "kr8s", "markdown_it", "asyncio")
VERSION = re.compile(r"^v?\d+\.\d+\.\d+([-@].*)?$")


def sources(*rooms: str) -> Iterator[Path]:
    for room in rooms:
        # `pulumi package add ../tandem/plugin` makes an environment there.
        yield from sorted(path for path in (ROOT / room).glob("**/*.py") if ".venv" not in path.parts)


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_a_package_imports_only_the_packages_that_it_may(room: str) -> None:
    for path in sources(room):
        rooms = {name.split(".")[0] for name in imported(path)} & set(MAY_IMPORT)
        assert rooms <= MAY_IMPORT[room] | {room}, path


def test_no_imports_form_a_cycle() -> None:
    """Imports inside functions and for types count: to understand one module of a cycle, you must read them all."""
    graph = import_graph(*MAY_IMPORT)
    open_: list[str] = []
    done: set[str] = set()

    def visit(module: str) -> None:
        assert module not in open_, " -> ".join([*open_[open_.index(module) :], module])
        if module not in done:
            open_.append(module)
            for other in sorted(graph[module]):
                visit(other)
            done.add(open_.pop())

    for module in sorted(graph):
        visit(module)


def test_the_package_of_a_command_imports_no_other_command() -> None:
    """Commands share only the packages in `SHARED`, each of which imports only those before it."""
    for module, others in import_graph("tandem").items():
        _, own, *_ = [*module.split("."), ""]
        if own in ("", "main", "__main__"):
            continue
        below = SHARED[: SHARED.index(own)] if own in SHARED else SHARED
        rooms = {other.split(".")[1] for other in others if other.startswith("tandem.")}
        assert rooms <= {*below, own}, module


def test_the_page_about_the_code_has_these_floors_and_rooms() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    assert [set(row) for row in rows(page, "Rooms of the rules")] == [*FLOORS]
    assert rows(page, "Rooms that commands share") == [[room] for room in SHARED]
    assert {name.strip("/") for [name] in rows(page, "Floors")} == set(MAY_IMPORT) - {"catalogue"}


def rows(page: str, heading: str) -> list[list[str]]:
    """The code in the first column of the table below `heading`."""
    table = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return [re.findall("`([^`]+)`", cell) for cell in cells]


def test_the_walks_through_the_code_name_what_their_files_have() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    walks = page.split("\n## Walk: ")[1:]
    assert len(walks) == 4
    for walk in walks:
        code = re.findall("`([^`]+)`", walk)
        files = "".join((ROOT / name).read_text(encoding="utf-8") for name in code if name.endswith(".py"))
        for name in code:
            if re.fullmatch(r"\w+\(\)|[a-z]+_[a-z_]+|[A-Z][a-z]+[A-Za-z]*", name):
                defined = rf"\b(def|class) {name.removesuffix('()')}\b|^ *{name}(:| =)"
                assert re.search(defined, files, re.MULTILINE), name


def assert_imports_of_lower_floors(package: str, floors: Sequence[set[str]], free: Set[str] = frozenset()) -> None:
    """A room of a package imports only rooms of lower floors; those of `free` may import each other."""
    depth = package.count(".") + 1
    floor_of = {room: floor for floor, rooms in enumerate(floors) for room in rooms}
    for module, others in import_graph(package.split(".")[0]).items():
        if module.startswith(f"{package}."):
            own = module.split(".")[depth]
            rooms = {other.split(".")[depth] for other in others if other.startswith(f"{package}.")} - {own}
            rooms -= free if own in free else set()
            assert all(floor_of[room] < floor_of[own] for room in rooms), module


def test_a_room_of_the_rules_imports_only_from_lower_floors() -> None:
    rooms = {path.stem for path in (ROOT / "sharing").iterdir()} - {"__init__", "__pycache__", "data", "py"}
    assert rooms == set().union(*FLOORS)
    assert_imports_of_lower_floors("sharing", FLOORS, free=FLOORS[0])


def test_a_room_of_the_emulated_world_imports_only_from_lower_floors() -> None:
    assert_imports_of_lower_floors("sandbox.world", FLOORS_OF_THE_WORLD)


@pytest.mark.parametrize("room", IN_SANDBOX)
def test_a_package_of_the_sandbox_imports_only_the_packages_that_it_may(room: str) -> None:
    for module, others in import_graph("sandbox").items():
        if module.startswith(f"sandbox.{room}"):
            rooms = {other.split(".")[1] for other in others if other != "sandbox"} - {"graph", "wire"}
            assert rooms <= IN_SANDBOX[room], module


def import_graph(*rooms: str) -> dict[str, set[str]]:
    """The modules of ours that each module imports, wherever in it."""
    paths = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sources(*rooms)}
    paths = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    graph: dict[str, set[str]] = {module: set() for module in paths}
    for module, path in paths.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                graph[module] |= {name.name for name in node.names if name.name in paths}
            elif isinstance(node, ast.ImportFrom) and node.module:
                full = [f"{node.module}.{name.name}" for name in node.names]
                graph[module] |= {name if name in paths else node.module for name in full} & set(paths)
    return graph


def test_rules_do_not_import_pulumi() -> None:
    for path in sources("sharing"):
        assert not any(name.split(".")[0].startswith("pulumi") for name in imported(path)), path


def test_only_stacks_read_pulumis_config_and_export() -> None:
    for path in sources("sharing", "components", "plugin", "sandbox", "tandem"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "pulumi":
                assert node.attr not in ("Config", "export", "get_stack", "get_project"), path


def test_modules_of_fast_commands_import_nothing_heavy() -> None:
    program = (
        f"import importlib, sys\nfor module in {WITHOUT_PULUMI}:\n importlib.import_module(module)\n"
        f" heavy = [name for name in sys.modules if name.split('.')[0] in {HEAVY}]\n"
        " if heavy: sys.exit(f'{module}: {heavy}')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


def test_files_are_written_durably_and_locked_in_one_place() -> None:
    """`sharing.files` does both, and its tests cover a full disk, a kill and a link."""
    calls = {"os.fsync", "os.replace", "os.rename", "fcntl.flock", "fcntl.lockf", "tempfile.mkstemp"}
    for path in sources(*MAY_IMPORT):
        if path != ROOT / "sharing" / "files.py":
            tree = ast.parse(path.read_text(encoding="utf-8"))
            assert not calls & {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}, path


def test_version_literals_live_in_versions_alone() -> None:
    for path in sources("components", "plugin", "stacks", "sandbox", "tandem", "sharing"):
        if path.name == "versions.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not VERSION.match(node.value), f"{path}: {node.value}"


def test_files_are_short_enough_to_read() -> None:
    for path in sources(*MAY_IMPORT):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES, path


def test_text_from_outside_enters_markup_through_one_function() -> None:
    """`tandem.terminal.in_markup` also removes line feeds, which would end a row of a table."""
    using = [path for path in sources("tandem") if "rich.markup.escape" in imported(path)]
    assert using == [ROOT / "tandem" / "terminal.py"]


def test_all_output_of_commands_passes_through_one_place() -> None:
    """`print_line`, `print_json` and `open_console` make text printable; elsewhere only constants are printed."""
    for path in sources("tandem"):
        if path == ROOT / "tandem" / "terminal.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "Console", f"{path}:{node.lineno}"
                if node.func.id in ("print", "input"):
                    shown = [arg for arg in node.args if not isinstance(arg, ast.Constant)]
                    printed = [one.func for one in shown if isinstance(one, ast.Call)]
                    assert len(printed) == len(shown), f"{path}:{node.lineno}"
                    assert all(isinstance(f, ast.Name) and f.id == "printable" for f in printed), path
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "write":
                assert ast.unparse(node.func.value) not in ("sys.stdout", "sys.stderr"), f"{path}:{node.lineno}"
