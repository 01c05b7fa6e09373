"""The software bill of materials (SBOM) in CycloneDX: locked Python packages, images, and charts.

`python -m catalogue.sbom FILE` writes it, without a network. The same locks and table give the same bytes.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sharing import artifacts
from sharing.artifacts import Artifact

ROOT = Path(__file__).resolve().parent.parent
RUNNING, ALL = ROOT / "requirements.txt", ROOT / "requirements-dev.txt"
"""The second lock has everything of the first, in the same versions."""


def sbom() -> dict[str, Any]:
    """The whole SBOM. Packages that only development needs have the scope `excluded`."""
    bom = _read(ALL, "--pyproject", str(ROOT / "pyproject.toml"))
    running = {component["purl"] for component in _read(RUNNING)["components"]}
    for component in bom["components"]:
        # A copy of the lines of the lock, with all hashes, which are also under `externalReferences`.
        del component["description"]
        component["bom-ref"] = component["purl"]
        component["scope"] = "required" if component["purl"] in running else "excluded"
    bom["components"] += [_component(artifact) for artifact in artifacts.known()]
    root = bom["metadata"]["component"]["bom-ref"]
    needed = [component["bom-ref"] for component in bom["components"] if component["scope"] == "required"]
    bom["dependencies"] = [{"ref": root, "dependsOn": sorted(needed)}]
    return bom


def _read(lock: Path, *options: str) -> dict[str, Any]:
    """The SBOM of a lock from cyclonedx-bom. The SBOM is validated as a whole, in tests/test_sbom.py."""
    reproducible = ("--output-reproducible", "--no-validate", "--spec-version", "1.6")
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", *reproducible, *options, str(lock)]
    read: dict[str, Any] = json.loads(subprocess.check_output(command))
    return read


def _component(artifact: Artifact) -> dict[str, Any]:
    """An image or a chart. The digest of a package is its hash; that of a manifest is part of the package URL."""
    component: dict[str, Any] = {
        "type": "container" if artifact.kind == "image" else "application",
        "bom-ref": f"{artifact.kind}:{artifact.name}@{artifact.version}",
        "name": artifact.name,
        "version": artifact.version,
        "scope": "required",
        "purl": _package_url(artifact),
        "properties": [
            {"name": "tandem:pinned-by", "value": artifact.pinned_by},
            {"name": "tandem:source-of-digest", "value": artifact.source},
        ],
    }
    if artifact.digest and _is_package(artifact):
        component["hashes"] = [{"alg": "SHA-256", "content": artifact.digest.removeprefix("sha256:")}]
    return component


def _is_package(artifact: Artifact) -> bool:
    return artifact.name.startswith("https://")


def _package_url(artifact: Artifact) -> str:
    """Types `oci` and `generic` of the package URL specification, which has none for chart repositories (#236)."""
    name = artifact.name.removeprefix("oci://")
    repository, _, short = name.rpartition("/")
    if _is_package(artifact):
        return f"pkg:generic/{short}@{quote(artifact.version)}?repository_url={quote(repository, safe='')}"
    version = f"@{quote(artifact.digest, safe='')}" if artifact.digest else ""
    return f"pkg:oci/{short}{version}?repository_url={quote(name, safe='')}&tag={quote(artifact.version)}"


def main(file: Path) -> None:
    """Writes the SBOM into `file`."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(sbom(), indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
