"""Writes what is derived from the code: `Pulumi.dev.yaml`, the JSON schemas, and the tables of the documents.

    python docs/generate.py            writes them
    python docs/generate.py --check    says which are out of date, exit 1

`tests/test_documents.py` runs the check.
"""

import datetime
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import alternatives
import cli
import component_page
import effects
import emulation
import errors
import front
import keys
import limits
import modes
import picture
import real_world
import recipe_pages
import records
import regions
import sample_report
import samples
import speeds
from pydantic import TypeAdapter

from catalogue import speed_report
from components.ollama_pair.model_metrics import FAMILIES
from plugin import schema as package_schema
from sharing import tables
from sharing.sections.config import StackConfig
from sharing.verdict.full import judge_fully
from stacks.model_files.web import OFFLINE
from stacks.stack_file import schema, write
from stacks.stack_file.judge import judge_file
from stacks.stack_file.provider_keys import REGION
from tandem.doctor.checks import CHECKS
from tandem.init import recipes
from tandem.plan_json.report import PlanReport

ROOT = Path(__file__).resolve().parent.parent
DECISIONS = ROOT / "docs" / "decisions"
HOME = ROOT / "docs" / "index.md"
REFERENCE = ROOT / "docs" / "reference"
EMULATION = REFERENCE / "emulation.md"
REAL_WORLD = REFERENCE / "real-world-behaviours.md"
TWO_SIZES = ROOT / "docs" / "how-to" / "share-a-gpu-by-size.md"
ALTERNATIVES = ROOT / "docs" / "explanation" / "alternatives.md"
WAYS = ROOT / "docs" / "explanation" / "ways-to-share.md"
WHERE = {
    "machine": "this machine",
    "account": "the account",
    "stack": "the stack's needs",
    "cluster": "what is deployed",
}
IN_DEV: dict[str, dict[str, Any]] = {
    "sharing": {"mode": "timeslice"},
    "gpu-nodes": {"instance-types": ["g4dn.xlarge", "g4dn.2xlarge"]},
    "models": {"name": "llama2:7b", "context": 2048},
    "cluster": {"nat": "none", "public-access-cidrs": ["0.0.0.0/0"]},
    "cluster.system-nodes": {"count": 1},
    "budget": {"max-usd-per-hour": 1.25, "max-usd-per-month": 450},
}
"""Values of the stack `dev`, the cheapest that works."""


def main(arguments: list[str]) -> int:
    """Writes or checks every document; returns the exit code."""
    if "--check" in arguments:
        stale = [path for path, text in documents() if not path.is_file() or not _is_current(path, text)]
        for path in dict.fromkeys(stale):
            print(f"{path.relative_to(ROOT)} is out of date. Run `make docs`.")
        return 1 if stale else 0
    for path, text in documents():
        # At once, because a document with several generated parts is read again for each.
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


def _is_current(path: Path, text: str) -> bool:
    written = path.read_text(encoding="utf-8")
    if path == EMULATION:
        # Rules that two branches add at once are each in date; `make docs` puts the sources of both into the table.
        written, text = (re.sub("(?s)<!-- rules: generated -->.*<!-- /rules -->", "", one) for one in (written, text))
    return real_world.is_same(written, text) if path == REAL_WORLD else written == text


def documents() -> Iterator[tuple[Path, str]]:
    """Every derived document with the text that it should have."""
    yield ROOT / "Pulumi.dev.yaml", dev_stack()
    yield ROOT / "docs" / "plan.schema.json", plan_schema()
    yield ROOT / "docs" / schema.FILE, json.dumps(schema.stack_schema(), indent=1) + "\n"
    for scheme in picture.SCHEMES:
        yield ROOT / "docs" / "assets" / f"architecture-{scheme}.svg", picture.draw(scheme)
        yield ROOT / "docs" / "assets" / f"speed-{scheme}.svg", speeds.draw(scheme)
    yield ROOT / "docs" / "benchmarks" / "sample-report.html", sample_report.page()
    yield DECISIONS / "README.md", records.index(DECISIONS)
    yield REAL_WORLD, real_world.document(ROOT)
    yield REFERENCE / "regions.md", regions.document()
    yield REFERENCE / "cli.md", cli.document()
    yield REFERENCE / "components.md", component_page.document()
    yield package_schema.FILE, package_schema.text()
    yield _with_table(REFERENCE / "exit-codes.md", "codes", _markdown(cli.exit_codes_table()))
    yield REFERENCE / "errors.md", errors.document()
    yield _with_table(EMULATION, "rules", _markdown(emulation.rows()))
    yield _with_table(ROOT / "docs" / "tutorials" / "first-deployment.md", "costs", costs_table())
    yield _with_table(ROOT / "docs" / "tutorials" / "first-plan.md", "plan", samples.plan("dev"))
    yield _with_table(ROOT / "docs" / "tutorials" / "first-plan.md", "refusal", samples.refusal())
    yield _with_table(ROOT / "docs" / "how-to" / "before-your-first-up.md", "checks", checks_table())
    found = modes.find(_config("timeslice", _day()))
    yield _with_table(REFERENCE / "sharing-modes.md", "modes", _markdown(modes.comparison(found)))
    of_sizes = limits.find(front.base(served.model.name for served in _config("per-model", _day()).models))
    yield _with_table(TWO_SIZES, "stack", samples.stack_file("per-model"))
    yield _with_table(TWO_SIZES, "plan", samples.plan("per-model"))
    yield _with_table(TWO_SIZES, "prices", _markdown(limits.rows(of_sizes)))
    yield _with_table(WAYS, "prices", _markdown(limits.rows(of_sizes)))
    yield _with_table(WAYS, "ecs", limits.without_cluster(of_sizes))
    yield _with_table(ALTERNATIVES, "hosted", _markdown(alternatives.rows()))
    yield _with_table(ALTERNATIVES, "hosted-source", alternatives.source())
    yield _with_table(ALTERNATIVES, "machine", alternatives.machine())
    yield _with_table(ROOT / "README.md", "first", front.price(cost_of_dev()) + front.claim(ROOT))
    yield _with_table(ROOT / "README.md", "pairs", _markdown(front.pairs()))
    yield _with_table(ROOT / "README.md", "modes", _markdown(modes.overview(found)))
    yield _with_table(ROOT / "README.md", "plan", samples.plan("timeslice"))
    yield _with_table(ROOT / "docs" / "how-to" / "read-the-models-metrics.md", "metrics", metrics_table())
    yield _with_table(ROOT / "docs" / "how-to" / "verify-a-stack.md", "watch", cli.from_a_test("tandem watch"))
    yield _with_table(REFERENCE / "changes.md", "changes", effects.changes())
    yield _with_table(ROOT / "docs" / "how-to" / "upgrade.md", "upgrades", effects.upgrades())
    yield _with_table(REFERENCE / "stack-file.md", "keys", keys.reference())
    yield _with_table(HOME, "plan", samples.plan("timeslice"))
    yield _with_table(HOME, "cost", cost_of_dev())
    yield _with_table(HOME, "sizes", _markdown(limits.rows(of_sizes)))
    yield _with_table(recipe_pages.FOLDER / "index.md", "recipes", _markdown(recipe_pages.overview()))
    for name in recipes.names():
        yield from _recipe(name)
    yield from recipe_pages.pictures()
    for name, text in speed_tables().items():
        yield _with_table(ROOT / "docs" / "explanation" / "speed.md", name, text)


def _recipe(name: str) -> Iterator[tuple[Path, str]]:
    """The page of a recipe, with three generated parts, or four."""
    page = recipe_pages.FOLDER / f"{name}.md"
    parts = {
        "figures": _markdown(recipe_pages.figures(name)),
        "plan": recipe_pages.plan(name),
        "stack": recipe_pages.stack(name),
    }
    text = page.read_text(encoding="utf-8")
    if "<!-- team: generated -->" in text:
        parts["team"] = _markdown(recipe_pages.team(name))
    for part, table in parts.items():
        text = _replace(text, page.name, part, table)
    yield page, text


def dev_stack() -> str:
    """The stack file that shows every key: set keys as they are, the others as comments with their defaults."""
    sections = dict(IN_DEV)
    system_nodes = {"system-nodes": sections.pop("cluster.system-nodes")}
    changed = {
        "cluster": {**sections["cluster"], **system_nodes},
        "models": [sections["models"], {"name": "mistral:7b", "context": 2048}],
    }
    values = {f"tandem:{key}": value for key, value in {**sections, **changed}.items()}
    head = [
        f"yaml-language-server: $schema=docs/{schema.FILE}",
        "The stack to try first: the cheapest that works. Every key is here, commented ones with their default.",
    ]
    # A set key is last: `pulumi stack init` (3.260) moves comments at the end out of `config:`.
    return write.stack_file({REGION: "us-east-1", **values}, head, every_key=True)


def _with_table(path: Path, name: str, table: str) -> tuple[Path, str]:
    """The document with its table written again; two comments mark its place."""
    return path, _replace(path.read_text(encoding="utf-8"), path.name, name, table)


def _replace(text: str, page: str, name: str, table: str) -> str:
    before, opening, rest = text.partition(f"<!-- {name}: generated -->\n")
    _, closing, after = rest.partition(f"<!-- /{name} -->")
    assert opening, f"{page} has no place for the table {name}"
    assert closing, f"{page} does not end the table {name}"
    return f"{before}{opening}{table}{closing}{after}"


def checks_table() -> str:
    """The checks of `tandem doctor`, in its order."""
    rows = [("check", "requirement", "where it looks")]
    rows += [(check.title, check.about, WHERE[check.source]) for check in CHECKS]
    return _markdown(rows)


def speed_tables() -> dict[str, str]:
    """The generated parts of the page about speed, by name."""
    rows = {
        "gpus": speeds.gpu_rows(),
        "shared": speeds.shared_rows(),
        "accuracy": speed_report.accuracy(),
        "groups": speed_report.groups(),
        "prompts": speed_report.prompts(),
        "constants": speeds.constant_rows(),
        "sources": speeds.source_rows(),
    }
    tables = {name: _markdown(each) for name, each in rows.items()}
    config = _config("dev", _day())
    example = speeds.example(config.models[0], config.pools[0].smallest.gpu)
    pair = _config("timeslice", _day())
    shared_example = speeds.shared_example(pair.models[0], pair.models[1], pair.pools[0].smallest.gpu)
    return {"example": example, "shared-example": shared_example, "ranges": speeds.held(), **tables}


def metrics_table() -> str:
    """The metrics of the models' exporters."""
    rows = [("metric", "type", "meaning"), *((f"`{name}`", kind, text) for name, (kind, text) in FAMILIES.items())]
    return _markdown(rows)


def cost_of_dev() -> str:
    """The cost of the cheapest stack, in one sentence."""
    bill = judge_fully(_config("dev", _day())).cost
    assert bill is not None
    total, dedicated = bill.usd_per_hour, bill.dedicated_usd_per_hour
    return f"The stack `dev` costs up to ${total:.2f} per hour, or ${dedicated:.2f} with a GPU for each model.\n"


def costs_table() -> str:
    """The cost of each stack, on the day of the price table."""
    rows = [("stack", "$ per hour", "$ per month", "a GPU for each model", "GPU nodes")]
    for stack in samples.STACKS:
        config = _config(stack, _day())
        bill, pool = judge_fully(config).cost, config.pools[0]
        assert bill is not None
        by = ", by Karpenter" if pool.provisioner == "karpenter" else ""
        nodes = f"{config.nodes_of(pool)} × {' or '.join(pool.instance_types)}, {pool.capacity}{by}"
        dedicated = f"{bill.dedicated_usd_per_hour:.2f}"
        rows.append((f"`{stack}`", f"{bill.usd_per_hour:.2f}", f"{bill.usd_per_month:,.0f}", dedicated, nodes))
    return _markdown(rows)


def _markdown(rows: Sequence[tuple[str, ...]]) -> str:
    head, *body = rows
    lines = [head, tuple("---" for _ in head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _day() -> datetime.date:
    return datetime.date.fromisoformat(tables.read("gpu_prices").date)


def _config(stack: str, day: datetime.date) -> StackConfig:
    return judge_file(ROOT / f"Pulumi.{stack}.yaml", today=day).plan().config


def plan_schema() -> str:
    """The JSON schema of `tandem plan --json`."""
    schema = TypeAdapter(PlanReport).json_schema(mode="serialization")
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, indent=2) + "\n"


if __name__ == "__main__":
    os.environ[OFFLINE] = "1"  # the same pages on every machine
    sys.exit(main(sys.argv[1:]))
