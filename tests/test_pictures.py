"""The pictures of the README: the stack `dev` in colours that can be read, and a recording without flaws."""

import re
from xml.etree import ElementTree

import pytest

from sharing.hardware.gpus import instance_types
from stacks.stack_file.judge import judge_file
from tandem.dry_run.program import program_graph
from tests.pages import ROOT

ASSETS = ROOT / "docs" / "assets"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_picture_shows_the_models_and_the_gpu_of_the_stack_dev(scheme: str) -> None:
    picture = ElementTree.parse(ASSETS / f"architecture-{scheme}.svg").getroot()
    said = " ".join("".join(text.itertext()) for text in picture.iter(f"{SVG}text"))
    config = judge_file(ROOT / "Pulumi.dev.yaml").plan().config
    [pool] = config.pools
    gpu = instance_types()[pool.instance_types[0]].gpu
    models = [served.model.name for served in config.models]
    for name in (*models, f"one {pool.capacity} {pool.instance_types[0]}", f"one NVIDIA {gpu.title}"):
        assert name in said, name
    assert f"share {len(models)}" in said


def test_the_recording_shows_no_warning_no_path_of_a_machine_and_each_name_in_full() -> None:
    """If this fails after `make recording`, mend what the commands print."""
    picture = ElementTree.parse(ASSETS / "recording.svg").getroot()
    lines = [" ".join(" ".join(line.itertext()).split()) for line in picture.iter(f"{SVG}text")]
    assert [line for line in lines if re.search(r"warning|error|hint|/tmp|/home|stack rm", line)] == []
    graph = program_graph(judge_file(ROOT / "Pulumi.timeslice.yaml").plan())
    names = {found for line in lines for found in re.findall(r"^[+-] [│├└─ ]*\S+:\S+ (\S+)", line)}
    assert len(names) > 60
    assert names <= {each.name for each in graph}
    times = [found for line in lines for found in re.findall(r" (creat\S+ \(.*)$", line)]
    assert [time for time in times if not re.fullmatch(r"(creating \(\d+s\)\.*|created \(\d+\.\d\ds\))", time)] == []


@pytest.mark.slow
def test_the_recording_types_commands_of_the_readme() -> None:
    picture = ElementTree.parse(ASSETS / "recording.svg").getroot()
    title = picture.findtext(f"{SVG}title") or ""
    typed = title.removeprefix("A terminal that runs ").split(", ")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(typed) == 3
    assert [command for command in typed if f"`{command}`" not in readme and f"\n{command}\n" not in readme] == []
    assert f"![A terminal: {', '.join(typed)}](" in readme


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_of_the_picture_has_contrast(scheme: str) -> None:
    """WCAG 2.2, success criterion 1.4.3: at least 4.5 to 1."""
    text = (ASSETS / f"architecture-{scheme}.svg").read_text(encoding="utf-8")
    fills = dict(re.findall(r"\.(\w+)\{fill:(#\w{6})", text))
    for ink in ("title", "line"):
        for ground in ("aws", "eks", "node", "gpu", "step", "model"):
            assert contrast(fills[ink], fills[ground]) >= 4.5, (ink, ground)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dots_and_text_of_the_plot_have_contrast(scheme: str) -> None:
    """WCAG 2.2, 1.4.3 for text, and 1.4.11 for what a picture needs to be understood: 3 to 1."""
    text = (ASSETS / f"speed-{scheme}.svg").read_text(encoding="utf-8")
    fills = dict(re.findall(r"\.(\w+)\{fill:(#\w{6})", text))
    for ink, least in (("title", 4.5), ("line", 4.5), ("known", 3.0), ("unknown", 3.0)):
        assert contrast(fills[ink], fills["field"]) >= least, ink


def contrast(*colours: str) -> float:
    lighter, darker = sorted(map(luminance, colours), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    """WCAG 2.2, definition of relative luminance."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
