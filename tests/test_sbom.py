"""The SBOM names every locked package, image and chart, and is CycloneDX."""

import importlib
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from catalogue.sbom import main
from tests.rows import read_rows

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
LOCKED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^ ;]+)", re.MULTILINE)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("sbom") / "build" / "tandem.cdx.json"
    main(file)
    return file


@pytest.fixture(scope="module")
def components(made: Path) -> list[dict[str, Any]]:
    return list(json.loads(made.read_text(encoding="utf-8"))["components"])


def rows() -> list[dict[str, str]]:
    return read_rows(ROOT / "sharing" / "data" / "artifacts.csv")


def test_it_follows_the_schema_of_cyclonedx(made: Path) -> None:
    """The validator and its schemas are part of cyclonedx-bom, so it needs no network."""
    validation, schema = (importlib.import_module(f"cyclonedx.{name}") for name in ("validation.json", "schema"))
    validator = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    bom = json.loads(made.read_text(encoding="utf-8"))
    # The validator takes 20 ms for each address, and those of packages differ in the package's name alone.
    for component in [one for one in bom["components"] if "externalReferences" in one][3:]:
        del component["externalReferences"]
    assert validator.validate_str(json.dumps(bom)) is None
    unlike = {"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [{"type": "chart", "name": "ollama"}]}
    assert validator.validate_str(json.dumps(unlike)) is not None


def test_the_same_locks_give_the_same_bytes(made: Path) -> None:
    text = made.read_text(encoding="utf-8")
    main(made)
    assert made.read_text(encoding="utf-8") == text
    assert not {"serialNumber", "timestamp"} & {*json.loads(text), *json.loads(text)["metadata"]}
    assert str(ROOT) not in text


def test_every_locked_package_is_in_it_with_its_hashes(components: list[dict[str, Any]]) -> None:
    scopes = {
        (component["name"], component["version"]): component["scope"]
        for component in components
        if component["purl"].startswith("pkg:pypi/")
    }
    running, all_ = (
        {*LOCKED.findall((ROOT / name).read_text(encoding="utf-8"))}
        for name in ("requirements.txt", "requirements-dev.txt")
    )
    assert {*scopes} == running | all_
    assert {locked for locked, scope in scopes.items() if scope == "required"} == running
    hashes = {
        each["content"]
        for component in components
        for reference in component.get("externalReferences", ())
        for each in reference["hashes"]
    }
    lock = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    assert hashes == {*re.findall(r"--hash=sha256:([0-9a-f]{64})", lock)}


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["name"])
def test_every_image_and_chart_is_in_it_with_its_digest(components: list[dict[str, Any]], row: dict[str, str]) -> None:
    (found,) = (
        component
        for component in components
        if (component["name"], component["version"]) == (row["name"], row["version"])
    )
    assert found["type"] == {"image": "container", "chart": "application"}[row["kind"]]
    of_the_table = {"tandem:source-of-digest": row["source"], "tandem:pinned-by": row["pinned_by"]}
    assert {each["name"]: each["value"] for each in found["properties"]} == of_the_table
    digests = [f"sha256:{each['content']}" for each in found.get("hashes", ())]
    digests += re.findall(r"@(sha256:[0-9a-f]{64})\?", unquote(found["purl"]))
    assert digests == [row["digest"]] * bool(row["digest"])


def test_what_runs_depends_on_the_locked_packages_of_the_plan_images_and_charts(made: Path) -> None:
    bom = json.loads(made.read_text(encoding="utf-8"))
    [root] = bom["dependencies"]
    assert root["ref"] == bom["metadata"]["component"]["bom-ref"]
    needed = {component["bom-ref"] for component in bom["components"] if component["scope"] == "required"}
    assert {*root["dependsOn"]} == needed
