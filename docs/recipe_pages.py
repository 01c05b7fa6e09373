"""The generated parts of `docs/recipes/`: what the command on a page writes, its price and speed, and its picture."""

import contextlib
import datetime
import io
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest import mock
from xml.etree.ElementTree import Element, indent, tostring

import picture
import samples
from picture import Box

from sharing.cost.bill import Cost
from sharing.models.catalogue import Model
from sharing.speed.estimate import Estimate
from sharing.verdict.quick import Fit
from stacks.stack_file.judge import judge_file
from tandem import svg
from tandem.init import recipes
from tandem.main import main
from tandem.plan.screen import per_request
from tandem.terminal import in_range

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "recipes"
ASSETS = ROOT / "docs" / "assets"
COMMAND = re.compile(r"^```\n(tandem init (?:.*\\\n)*.*)\n", re.MULTILINE)
OF_A_TEAM = re.compile(r"--slots \d+")
SLOTS = (1, 2, 4, 8)
PLAN = "This is its plan:\n\n"
WIDTH, HEIGHT = 760, 210
BAR = (300, 118, 420, 64)
"""Place of the GPU's memory in the picture: left, top, width and height."""
GIB = 1024
Rows = Sequence[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Written:
    """What the first command of a page writes."""

    name: str
    title: str
    text: str
    """The stack file."""
    screen: str
    """The plan that the command prints."""
    fits: tuple[Fit, ...]
    bill: Cost
    nodes: int
    has_page: bool

    @property
    def gpu(self) -> str:
        """The instance type and its GPU."""
        smallest = self.fits[0].pool.smallest
        return f"{self.nodes} × {smallest.name} (NVIDIA {smallest.gpu.title})"


@cache
def write(name: str, slots: int = 0) -> Written:
    """Runs the command on the page of a recipe in a folder of its own; with `slots`, the one for a team."""
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    [command, *others] = COMMAND.findall(page)
    if slots:
        [of_a_team] = [other for other in others if OF_A_TEAM.search(other)]
        command = OF_A_TEAM.sub(f"--slots {slots}", of_a_team)
    _, *arguments = shlex.split(command.replace("\\\n", ""))
    screen = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(screen):
        shutil.copy(ROOT / "Pulumi.yaml", folder)
        with mock.patch.dict(os.environ, {"COLUMNS": "80", "NO_COLOR": "1"}):
            code = main(arguments)
        assert code == 0, f"{command}\n{screen.getvalue()}"
        [file] = Path().glob("Pulumi.*.yaml")
        reading = judge_file(file, today=datetime.date.today())
        text = file.read_text(encoding="utf-8")
    bill, [pool] = reading.verdict.cost, reading.config.pools
    assert bill is not None
    return Written(
        name=name,
        title=recipes.read(name).title,
        text=text,
        screen=screen.getvalue(),
        fits=reading.verdict.fits,
        bill=bill,
        nodes=reading.config.nodes_of(pool) or pool.max,
        has_page=reading.config.ui.enabled,
    )


def plan(name: str) -> str:
    """The plan as a code block, without the age of prices, which grows."""
    shown, _, _ = write(name).screen.partition(PLAN)[2].partition("\n\nThe hours of")
    lines = [line.rstrip() for line in samples.AGE.sub("", shown).splitlines()]
    return "\n".join(["```text", *lines, "```", ""])


def stack(name: str) -> str:
    """The stack file as a code block, without its comments."""
    lines = [line for line in write(name).text.splitlines() if line and not line.lstrip().startswith("#")]
    return "\n".join(["```yaml", *lines, "```", ""])


def figures(name: str) -> Rows:
    """Price and speed of one recipe."""
    written = write(name)
    bill = written.bill
    hours = bill.week.running_hours if bill.week else 0
    rows = [
        ("", ""),
        ("GPU node", written.gpu),
        ("price per hour", f"${bill.usd_per_hour:.2f}, or ${bill.week.parked_usd_per_hour:.2f} while parked")
        if bill.week
        else ("price per hour", f"${bill.usd_per_hour:.2f}"),
        ("price per month", f"**${bill.usd_per_month:.0f}** with {hours:.0f} hours per week"),
        ("without a schedule", f"${bill.usd_per_month_unparked:.0f} per month"),
    ]
    rows += [(fit.served.model.name, _speed(fit)) for fit in written.fits]
    return rows


def _speed(fit: Fit) -> str:
    """The forecast of one model, in words."""
    if fit.speed is None:
        return f"embeddings, context {fit.served.effective_context:,}"
    alone, busy = _range(fit.speed.tokens_per_s), _range(fit.speed.busy_tokens_per_s)
    both = "" if alone == busy else f", {busy} while the other one works, too"
    return f"{alone} tokens/s{both}; context {fit.served.effective_context:,}"


def _range(estimate: Estimate) -> str:
    return in_range(estimate)


def team(name: str) -> Rows:
    """Price and speed of a recipe for one request at once to each model, and for more."""
    rows: list[tuple[str, ...]] = [("slots", "GPU node", "$ per hour", "$ per month")]
    for slots in SLOTS:
        written = write(name, slots)
        rows[0] = (*rows[0][:4], *(f"{fit.served.model.name}, tokens/s per request" for fit in written.fits))
        bill, speeds = written.bill, [_range(each) for fit in written.fits if (each := per_request(fit))]
        rows.append((f"{slots}", written.gpu, f"{bill.usd_per_hour:.2f}", f"{bill.usd_per_month:.0f}", *speeds))
    return rows


def overview() -> Rows:
    """All recipes, on the page that lists them."""
    rows = [("recipe", "models", "GPU node", "$ per hour", "$ per month", "tokens/s")]
    for name in recipes.names():
        written = write(name)
        speed = min((fit.speed.busy_tokens_per_s for fit in written.fits if fit.speed), key=lambda each: each.value)
        models = " and ".join(f"`{fit.served.model.name}`" for fit in written.fits)
        bill = written.bill
        link = f"[`{name}`]({name}.md): {written.title}"
        rows.append((link, models, written.gpu, f"{bill.usd_per_hour:.2f}", f"{bill.usd_per_month:.0f}", _range(speed)))
    return rows


def pictures() -> Iterator[tuple[Path, str]]:
    """The picture of each recipe in each colour scheme."""
    for name in recipes.names():
        for scheme in picture.SCHEMES:
            yield ASSETS / f"recipe-{name}-{scheme}.svg", draw(write(name), scheme)


def draw(written: Written, scheme: str) -> str:
    """Who asks whom, and how the models share the memory of the GPU, to scale."""
    total = written.fits[0].pool.smallest.gpu.cuda_mib
    parts = [(fit.served.model.name, fit.placement.need.bound) for fit in written.fits]
    used = sum(round(mib / GIB, 1) for _, mib in parts)  # as the plan adds them up
    says = f"{written.title}: {' and '.join(tag for tag, _ in parts)} on {written.gpu}"
    root = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img"})
    root.set("aria-labelledby", "title description")
    svg.add(root, "title", says, id="title")
    svg.add(root, "desc", f"Together they need {used:.1f} of {total / GIB:.1f} GiB.", id="description")
    svg.add(root, "style", picture.style(scheme))
    marker = svg.add(root, "marker", id="head", markerWidth=9, markerHeight=8, refX=8, refY=4, orient="auto")
    svg.add(marker, "path", d="M0 0 9 4 0 8z")
    first = "your browser" if written.has_page else "your editor"
    Box(10, 10, 200, 64, "step", first, ("through a forwarded port",)).draw(root)
    if written.has_page:
        Box(10, 134, 200, 64, "node", "chat page", ("on the system node",)).draw(root)
        svg.add(root, "line", kind="arrow", x1=110, y1=74, x2=110, y2=134)
    Box(282, 10, 466, 188, "gpu", written.gpu, align="start").draw(root)
    free = f"memory, to scale: {used:.1f} of {total / GIB:.1f} GiB"
    svg.add(root, "text", free, kind="line", x=296, y=104)
    left, top, width, height = BAR
    svg.add(root, "rect", kind="aws", x=left, y=top, width=width, height=height, rx=4)
    x = float(left)
    for number, fit in enumerate(written.fits):
        share = width * fit.placement.need.bound / total
        svg.add(root, "rect", kind="model", x=x, y=top, width=share, height=height, rx=4)
        y = 58 + 20 * number
        words = f"{number + 1}  {fit.served.model.name}: {_does(fit.served.model)}"
        svg.add(root, "text", words, kind="line", x=296, y=y)
        svg.add(root, "text", f"{number + 1}", kind="title", text_anchor="middle", x=x + share / 2, y=top + 37)
        x += share
    y = 166 if written.has_page else 42
    svg.add(root, "line", kind="arrow", x1=210, y1=y, x2=282, y2=y)
    indent(root)
    return tostring(root, encoding="unicode") + "\n"


def _does(model: Model) -> str:
    """What a model takes."""
    if model.encoder:
        return "embeddings"
    return "text and images" if model.projector_bytes else "text"
