"""The wheel has the right files under the right names."""

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from tests.wheel.conftest import ROOT, build

OF_THE_CHECKOUT = {
    *("sharing", "components", "stacks", "sandbox", "policy", "plugin"),
    *("catalogue", "distribution", "tests"),
}


def files(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}


def test_everything_is_within_tandem(wheel: Path) -> None:
    assert {name.split("/")[0] for name in files(wheel)} == {"tandem", "tandem_gpu-0.1.0.dist-info"}
    assert files(wheel)["tandem_gpu-0.1.0.dist-info/top_level.txt"] == b"tandem\n"
    assert "tandem_gpu-0.1.0.dist-info/licenses/LICENSE" in files(wheel)


def test_every_file_of_the_packages_is_in_the_wheel(wheel: Path, sources: Path) -> None:
    homes = {"sandbox": "emulator"}
    expected = {
        "/".join(
            ("tandem", *(() if room == "tandem" else (homes.get(room, room),)), *path.relative_to(sources / room).parts)
        )
        for room in ("sharing", "components", "stacks", "sandbox", "tandem")
        for path in (sources / room).glob("**/*")
        if path.is_file()
    }
    assert {name for name in files(wheel) if name.startswith("tandem/")} == expected


def test_no_module_imports_by_a_name_of_the_checkout(wheel: Path) -> None:
    for name, content in files(wheel).items():
        if not name.endswith(".py"):
            continue
        for node in ast.walk(ast.parse(content)):
            match node:
                case ast.Import(names=names):
                    modules = [alias.name for alias in names]
                case ast.ImportFrom(module=str(module), level=0):
                    modules = [module]
                case ast.Call(func=ast.Name(id="files" | "import_module"), args=[ast.Constant(value=str(module))]):
                    modules = [module]
                case _:
                    continue
            assert not {module.split(".")[0] for module in modules} & OF_THE_CHECKOUT, f"{name}:{node.lineno}"


def test_pods_run_the_same_text_as_from_the_checkout(wheel: Path) -> None:
    """The goldens hold the scripts that the cluster gets; a changed import would fail only in the cluster."""
    golden = ROOT / "tests" / "golden" / "stacks" / "timeslice.json"
    texts = set(scripts(json.loads(golden.read_text(encoding="utf-8"))))
    assert len(texts) >= 4
    in_wheel = {content.decode() for name, content in files(wheel).items() if name.endswith(".py")}
    assert [text[:60] for text in texts if text not in in_wheel] == []


def scripts(value: object) -> list[str]:
    """The Python texts in a golden."""
    if isinstance(value, dict):
        own = [text for key, text in value.items() if key.endswith(".py") and isinstance(text, str)]
        return [*own, *(text for inner in value.values() for text in scripts(inner))]
    return [text for inner in value for text in scripts(inner)] if isinstance(value, list) else []


def test_an_sdist_makes_the_same_wheel(sources: Path, wheel: Path, tmp_path: Path) -> None:
    program = f"from distribution import backend; backend.build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", program], cwd=sources, check=True, capture_output=True)
    [archive] = tmp_path.glob("tandem_gpu-*.tar.gz")
    shutil.unpack_archive(archive, tmp_path)
    again = build(tmp_path / archive.name.removesuffix(".tar.gz"), tmp_path)
    assert files(again) == files(wheel)
