"""Draws `docs/assets/architecture-*.svg`: from a stack file to two models on one GPU, in light and dark colours."""

from dataclasses import dataclass
from typing import Literal
from xml.etree.ElementTree import Element, indent, tostring

from tandem import svg

WIDTH, HEIGHT = 760, 462
TITLE = "From a stack file to two models on one GPU"
DESCRIPTION = (
    "tandem plan checks a stack file without an AWS account: whether the models fit, what the stack costs, and which "
    "settings conflict. pulumi up runs the same checks, creates an EKS cluster with a system node and a spot GPU node, "
    "and proves the shares. The device plugin shares the one GPU. Two Ollama servers run on it, one for llama2:7b and "
    "one for mistral:7b."
)
SCHEMES = {
    "light": {"ink": "#1f2933", "soft": "#52606d", "line": "#9aa5b1", "aws": "#f5f7fa", "eks": "#ffffff"}
    | {"node": "#e6f6f4", "gpu": "#b8e6df", "model": "#ffffff", "step": "#ffffff", "accent": "#00796b"},
    "dark": {"ink": "#f0f4f8", "soft": "#b0bac5", "line": "#6b7a89", "aws": "#161b22", "eks": "#1c232c"}
    | {"node": "#12302e", "gpu": "#0f4a45", "model": "#1c232c", "step": "#1c232c", "accent": "#4db6ac"},
}
"""Colours by their use. Text has at least 4.5 times the luminance of its background (WCAG 2.2, 1.4.3)."""


@dataclass(frozen=True)
class Box:
    """A rectangle with a title and lines below it."""

    x: int
    y: int
    width: int
    height: int
    fill: str
    title: str
    lines: tuple[str, ...] = ()
    align: Literal["start", "middle"] = "middle"

    def draw(self, picture: Element) -> None:
        """Adds the rectangle, then its text."""
        svg.add(picture, "rect", kind=self.fill, x=self.x, y=self.y, width=self.width, height=self.height, rx=8)
        x = self.x + (self.width // 2 if self.align == "middle" else 14)
        for number, line in enumerate((self.title, *self.lines)):
            kind = "line" if number else "title"
            y = self.y + 24 + 20 * number
            svg.add(picture, "text", line, kind=kind, text_anchor=self.align, x=x, y=y)


BOXES = (
    Box(10, 10, 200, 104, "step", "Pulumi.dev.yaml", ("models, sharing mode,", "instance types, region,", "budget")),
    Box(
        280, 10, 200, 104, "step", "tandem plan", ("Do the models fit?", "What does it cost?", "Do settings conflict?")
    ),
    Box(550, 10, 200, 104, "step", "pulumi up", ("runs the same checks,", "creates the stack,", "proves the shares")),
    Box(10, 160, 740, 292, "aws", "AWS: a VPC, roles, and no load balancer", align="start"),
    Box(28, 198, 704, 236, "eks", "EKS cluster", align="start"),
    Box(46, 236, 160, 180, "node", "system node", ("CoreDNS,", "EBS CSI controller")),
    Box(224, 236, 490, 180, "node", "GPU node: one spot g4dn.xlarge", align="start"),
    Box(242, 274, 454, 124, "gpu", "one NVIDIA T4, shared by the device plugin", align="start"),
    Box(260, 312, 200, 68, "model", "Ollama: llama2:7b", ("on share 1",)),
    Box(478, 312, 200, 68, "model", "Ollama: mistral:7b", ("on share 2",)),
)
ARROWS = (((210, 62), (280, 62)), ((480, 62), (550, 62)), ((650, 114), (650, 160)))


def draw(scheme: str) -> str:
    """The picture as SVG in the colours of `light` or `dark`."""
    picture = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img"})
    picture.set("aria-labelledby", "title description")
    svg.add(picture, "title", TITLE, id="title")
    svg.add(picture, "desc", DESCRIPTION, id="description")
    svg.add(picture, "style", style(scheme))
    marker = svg.add(picture, "marker", id="head", markerWidth=9, markerHeight=8, refX=8, refY=4, orient="auto")
    svg.add(marker, "path", d="M0 0 9 4 0 8z")
    for box in BOXES:
        box.draw(picture)
    for (x1, y1), (x2, y2) in ARROWS:
        svg.add(picture, "line", kind="arrow", x1=x1, y1=y1, x2=x2, y2=y2)
    indent(picture)
    return tostring(picture, encoding="unicode") + "\n"


def style(scheme: str) -> str:
    """The colours and fonts as CSS."""
    colour = SCHEMES[scheme]
    rules = ["text{font:14px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}"]
    rules += [f".{name}{{fill:{colour[name]};stroke:{colour['line']}}}" for name in ("aws", "eks", "node", "gpu")]
    rules += [f".{name}{{fill:{colour[name]};stroke:{colour['accent']}}}" for name in ("step", "model")]
    rules += [f".title{{fill:{colour['ink']};font-weight:600}}", f".line{{fill:{colour['soft']}}}"]
    rules += [f".arrow{{stroke:{colour['accent']};stroke-width:2;marker-end:url(#head)}}"]
    return "".join([*rules, f"#head{{fill:{colour['accent']}}}"])
