"""The tables and the plot of `docs/explanation/speed.md`: where forecasts of speed come from, and how good they are."""

import re
import sys
from collections import Counter
from math import exp, hypot, isclose, log, log10
from pathlib import Path
from statistics import median
from xml.etree.ElementTree import Element, indent, tostring

import picture

from tandem import svg

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # `catalogue` is no part of the wheel

from catalogue import speed  # noqa: E402
from catalogue.speed_errors import LeftOut, spreads, without_gpu, without_source  # noqa: E402
from catalogue.speed_report import Rows  # noqa: E402
from sharing import tables  # noqa: E402
from sharing.hardware.gpus import Gpu, gpus  # noqa: E402
from sharing.models.kv_cache import bytes_read  # noqa: E402
from sharing.models.served import ServedModel  # noqa: E402
from sharing.modes.modes import Exclusive, TimeSlicing  # noqa: E402
from sharing.speed.estimate import Estimate, within  # noqa: E402
from sharing.speed.forecast import SHARED, forecast, read_per_token, weights_per_token  # noqa: E402
from sharing.speed.gpus import EXPERT_LAYERS, MOSTLY_FIXED, GpuSpeed, gpu_speeds  # noqa: E402

SIZE, LEFT, TOP, SIDE = (484, 490), 64, 44, 400
"""Pixels of the plot, and of its square field."""
LEAST, MOST = 8.0, 1000.0
"""Tokens per second at the ends of its axes."""
TICKS = (10, 20, 50, 100, 200, 500, 1000)
TITLE = "Forecast against reading, in tokens per second"
DESCRIPTION = (
    "Each dot is a published reading. It lies on the diagonal if the forecast that was made without it is exact. "
    "Readings of GPUs that other sources measured too lie near the diagonal; those of GPUs without readings lie "
    "further away."
)
ORANGE = {"light": "#b84a00", "dark": "#ff9a4d"}


def example(served: ServedModel, gpu: Gpu) -> str:
    """One forecast, step by step."""
    model, found, context = served.model, gpu_speeds()[gpu.name], served.effective_context
    weights, cache = read_per_token(model), bytes_read(served, context / 2)
    fixed = found.layer_seconds(layers=model.layers, has_experts=False)
    total = found.token_seconds(
        layers=model.layers, has_experts=False, read_bytes=weights + cache, quantization=model.quant
    )
    prompt = found.prompt_seconds(tokens=500, weights=weights_per_token(model))
    alone = forecast(served, gpu, Exclusive().offers(gpu)[0], 1)
    assert alone
    lines = [
        f"{model.name} ({model.quant}) on a {gpu.title}, context {context:,}",
        f"  fixed time       {model.layers} layers × {found.us_per_layer:.1f} µs = {fixed * 1000:.2f} ms",
        f"  weights          {weights / 1e9:.2f} GB: all but the embedding (a token reads a row of it)",
        f"  KV cache         {cache / 1e9:.2f} GB: {context // 2:,} tokens, half the context",
        f"  reading          {(weights + cache) / 1e9:.2f} GB ÷ ({_efficiency(found, model.quant):.3f} × "
        f"{found.gb_s:g} GB/s) = {(total - fixed) * 1000:.2f} ms",
        f"  time per token   {total * 1000:.2f} ms, so {1 / total:.0f} tokens/s",
        f"  range            {_range(alone.tokens_per_s)} tokens/s: nine in ten readings lie in it",
        f"  500-token prompt 2 × {weights_per_token(model) / 1e9:.2f} billion weights × 500 ÷ "
        f"{found.prompt_tflops:.1f} TFLOPS = {prompt:.2f} s",
    ]
    return "\n".join(["```text", *lines, "```", ""])


def shared_example(served: ServedModel, neighbour: ServedModel, gpu: Gpu) -> str:
    """A forecast beside one busy neighbour, step by step, on another GPU than that of the readings."""
    assert gpu.name != SHARED, "the example explains the range of another GPU"
    found = forecast(served, gpu, TimeSlicing(replicas=2).offers(gpu)[0], 2)
    assert found
    alone, together = found.tokens_per_s, found.busy_tokens_per_s
    read = [float(row["value"]) for row in tables.read("shared_speed").rows if row["what"] == "timeslice"]
    middle = median(read)
    parts = {
        "alone": (f"{alone.value:.1f} tokens/s", alone, "the GPU's own range, as above"),
        "time-slicing": (f"{middle:.2f} ÷ 2", Estimate(middle, min(read), max(read)), "lowest and highest reading"),
        "another GPU": ("", within(1, max(each.spread for each in gpu_speeds().values())), "than that of the readings"),
    }
    rows = [(name, shown, _down(part), _up(part), words) for name, (shown, part, words) in parts.items()]
    down = exp(hypot(*(log(_down(part)) for _, part, _ in parts.values())))
    up = exp(hypot(*(log(_up(part)) for _, part, _ in parts.values())))
    assert isclose(together.value, alone.value * middle / 2), "the page explains another middle"
    assert isclose(down, _down(together)), "the page explains another range"
    assert isclose(up, _up(together)), "the page explains another range"
    rows.append(("both busy", f"{together.value:.1f} tokens/s", down, up, "e^√(sum of their ln²)"))
    lines = [
        f"{served.model.name} beside {neighbour.model.name} on a {gpu.title}, time-slicing",
        *(f"  {name:<13}{shown:<15}÷ {below:.2f}  × {above:.2f}  {words}" for name, shown, below, above, words in rows),
        f"  range        {_range(together)} tokens/s",
    ]
    return "\n".join(["```text", *lines, "```", ""])


def _down(estimate: Estimate) -> float:
    return estimate.value / estimate.low


def _up(estimate: Estimate) -> float:
    return estimate.high / estimate.value


def gpu_rows() -> Rows:
    """The constants of every GPU of the catalogue."""
    rows: Rows = [
        (
            "GPU",
            "GB/s",
            "µs per layer",
            "efficiency: K-quants",
            "others",
            "prompt, TFLOPS",
            "readings",
            "range",
            "of prompts",
        )
    ]
    for name, gpu in sorted(gpus().items()):
        if found := gpu_speeds().get(name):
            numbers = (f"{found.gb_s:,g}", f"{found.us_per_layer:.0f}", f"{found.efficiency:.2f}")
            prompts = (f"{found.plain_efficiency:.2f}", f"{found.prompt_tflops:,.0f}", str(found.readings or "none"))
            ranges = f"{_percent(found.spread)}, {_percent(found.fixed_spread)}"
            rows.append((gpu.title, *numbers, *prompts, ranges, _percent(found.prompt_spread)))
    return rows


def shared_rows() -> Rows:
    """The readings of shared GPUs."""
    rows: Rows = [("what", "value", "setup", "source")]
    return rows + [
        (f"`{row['what']}`", row["value"], row["setup"].replace("|", "\\|"), _linked(row["source"]))
        for row in tables.read("shared_speed").rows
    ]


def constant_rows() -> Rows:
    """What was chosen by looking at all readings, those that a forecast is judged by included."""
    old, new = speed.PLAIN_FACTOR["before Ampere"], speed.PLAIN_FACTOR["since"]
    return [
        ("constant", "value", "what it does"),
        ("`EXPERT_LAYERS`", f"{EXPERT_LAYERS:g}", "fixed time of a layer with experts, in that of others"),
        (
            "`PLAIN_FACTOR`",
            f"{old:g}, {new:g}",
            "efficiency of Q4_0, Q8_0, F16 over that of K-quants: before Ampere, since",
        ),
        (
            "`MOSTLY_FIXED`",
            f"{100 * MOSTLY_FIXED:.0f} %",
            "part of the time for the layers from which the wider range holds",
        ),
        ("`PRIOR_US`, `PRIOR_EFFICIENCY`", f"{speed.PRIOR_US:g} µs, {speed.PRIOR_EFFICIENCY:g}", "where a fit begins"),
        ("`PULL_US`, `PULL_EFFICIENCY`", f"{speed.PULL_US:g}, {speed.PULL_EFFICIENCY:g}", "its weight, in readings"),
        ("`LITTLE`", f"{speed.LITTLE:g}", f"weight of readings of {' and '.join(speed.OLD_YEARS)} and of small models"),
        ("`SMALL_GB`", f"{speed.SMALL_GB:g} GB", "models that read less per token are small, and no error counts them"),
        ("`ENOUGH`", str(speed.ENOUGH), "readings from which a GPU has constants of its own"),
    ]


def source_rows() -> Rows:
    """Where the readings come from."""
    every = speed.readings()
    rows: Rows = [("source", "years", "GPUs", "readings")]
    for source, count in Counter(_short(each.source) for each in every).most_common():
        own = [each for each in every if _short(each.source) == source]
        years = sorted({each.year for each in own})
        when = years[0] if len(years) == 1 else f"{years[0]}–{years[-1]}"
        rows.append((_linked(source), when, str(len({each.chip for each in own})), str(count)))
    return rows


def _short(source: str) -> str:
    """Without its explanation."""
    return re.split(r": llama-bench|: tokens of|, to which| and decision", source)[0]


def _linked(source: str) -> str:
    """A repository, an issue or a page as a link."""
    if match := re.match(r"([\w.-]+/[\w.-]+)#(\d+)", source):
        return f"[{source}](https://github.com/{match[1]}/pull/{match[2]})"
    if match := re.match(r"[\w-]+\.com(/[\w./-]+)?", source):
        return f"[{source}](https://{match[0]})"
    if match := re.match(r"[\w-]+/[\w.-]+(/[\w./-]+)?", source):
        return source if match[0].startswith("docs/") else f"[{source}](https://github.com/{match[0]})"
    return source


def _efficiency(found: GpuSpeed, quantization: str) -> float:
    seconds = found.token_seconds(layers=0, has_experts=False, read_bytes=1e9, quantization=quantization)
    return 1 / (seconds * found.gb_s)


def _range(estimate: Estimate) -> str:
    return f"{estimate.low:.0f}–{estimate.high:.0f}"


def _percent(spread: float) -> str:
    return f"-{100 - 100 * exp(-spread):.0f} % +{100 * exp(spread) - 100:.0f} %"


def draw(scheme: str) -> str:
    """The plot as SVG in the colours of `light` or `dark`."""
    known, unknown = without_source(), without_gpu()
    root = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {SIZE[0]} {SIZE[1]}", "role": "img"})
    root.set("aria-labelledby", "title description")
    svg.add(root, "title", TITLE, id="title")
    svg.add(root, "desc", DESCRIPTION, id="description")
    svg.add(root, "style", _style(scheme))
    svg.add(root, "rect", kind="field", x=LEFT, y=TOP, width=SIDE, height=SIDE)
    for tick in TICKS:
        svg.add(root, "path", kind="grid", d=f"M{_x(tick):.1f} {TOP}v{SIDE}M{LEFT} {_y(tick):.1f}h{SIDE}")
        svg.add(root, "text", str(tick), kind="line", text_anchor="middle", x=_x(tick), y=TOP + SIDE + 18)
        svg.add(root, "text", str(tick), kind="line", text_anchor="end", x=LEFT - 8, y=_y(tick) + 4)
    svg.add(root, "path", kind="exact", d=f"M{LEFT} {TOP + SIDE}L{LEFT + SIDE} {TOP}")
    for kind, left_out in (("unknown", unknown), ("known", known)):
        group = svg.add(root, "g", kind=kind)
        for each in left_out:
            if each.reading.what == "decode":
                _dot(group, each)
    svg.add(root, "text", "forecast, tokens per second", kind="title", x=10, y=24)
    svg.add(root, "text", "reading", kind="title", text_anchor="end", x=LEFT + SIDE, y=TOP + SIDE + 34)
    for line, (kind, words, count) in enumerate(
        (("known", "GPU with readings", known), ("unknown", "GPU without", unknown))
    ):
        number = sum(each.reading.what == "decode" for each in count)
        group = svg.add(root, "g", kind=kind)
        svg.add(group, "circle", cx=LEFT + 14, cy=TOP + 18 + 22 * line, r=4)
        svg.add(root, "text", f"{words}: {number}", kind="line", x=LEFT + 24, y=TOP + 23 + 22 * line)
    indent(root)
    return tostring(root, encoding="unicode") + "\n"


def _dot(group: Element, each: LeftOut) -> None:
    forecasted = each.reading.forecast(each.speed)
    svg.add(group, "circle", cx=_x(each.reading.tokens_per_s), cy=_y(forecasted), r=3)


def _x(tokens_per_s: float) -> float:
    return LEFT + SIDE * log10(tokens_per_s / LEAST) / log10(MOST / LEAST)


def _y(tokens_per_s: float) -> float:
    return TOP + SIDE - SIDE * log10(tokens_per_s / LEAST) / log10(MOST / LEAST)


def _style(scheme: str) -> str:
    colour = picture.SCHEMES[scheme]
    return "".join(
        (
            "text{font:14px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}",
            f".field{{fill:{colour['eks']};stroke:{colour['line']}}}",
            f".grid{{stroke:{colour['line']};stroke-width:.5;opacity:.6}}",
            f".exact{{stroke:{colour['soft']};stroke-width:1.5}}",
            f".title{{fill:{colour['ink']};font-weight:600}}.line{{fill:{colour['soft']}}}",
            f".known{{fill:{colour['accent']};fill-opacity:.75}}.unknown{{fill:{ORANGE[scheme]};fill-opacity:.55}}",
        )
    )


def held() -> str:
    """The ranges of GPUs with readings, in one sentence."""
    ranges = spreads(without_source())
    narrow, wide = (_percent(each).replace(" +", " to +") for each in (ranges.spread, ranges.fixed_spread))
    fixed = f"{100 * MOSTLY_FIXED:.0f} %"
    return (
        f"For a GPU with readings, this is {narrow}, and {wide} where the layers take more than {fixed} of the time.\n"
    )
