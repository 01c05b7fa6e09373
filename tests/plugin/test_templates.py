"""The templates for `pulumi new`. The engine tier makes projects of them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from components import OllamaPairArgs
from plugin.build import build
from stacks.stack_file.judge import judge_file

TEMPLATES = Path(__file__).parents[2] / "templates"


def test_a_template_has_no_symbolic_links() -> None:
    """`pulumi new` 3.260 ends with an error at a link to a folder."""
    found = [*TEMPLATES.glob("**/*")]
    assert {path.name for path in found} > {"Pulumi.yaml", "README.md"}
    assert [path for path in found if path.is_symlink()] == []


def test_the_stack_file_of_the_template_has_no_warning(tmp_path: Path) -> None:
    text = (TEMPLATES / "python" / "Pulumi.dev.yaml").read_text(encoding="utf-8")
    file = tmp_path / "Pulumi.dev.yaml"
    # `pulumi new` asks for the region, and adds it at the end.
    file.write_text(f"{text}  aws:region: us-east-1\n", encoding="utf-8")
    assert judge_file(file).plan().verdict.warnings == ()


def test_a_model_that_does_not_fit_the_template_in_yaml_is_refused() -> None:
    text = (TEMPLATES / "yaml" / "Pulumi.yaml").read_text(encoding="utf-8")
    program: dict[str, Any] = yaml.safe_load(text)
    values = program["resources"]["models"]["properties"]
    values["runsOn"]["sharing"] = program["variables"]["sharing"]
    assert build(OllamaPairArgs, values, "OllamaPair").judged.warnings == []
    values["models"][0] = {"model": "llama3.3:70b"}
    with pytest.raises(ValueError, match=r"llama3\.3:70b .* cannot fit one GPU"):
        build(OllamaPairArgs, values, "OllamaPair")
