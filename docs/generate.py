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
from typing import Any, get_args

import cli
import component_page
import effects
import emulation
import errors
import limits
import modes
import picture
import real_world
import records
import regions
import sample_report
import samples
import speeds
from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from catalogue import speed_report
from components.ollama_pair.model_metrics import FAMILIES
from plugin import schema as package_schema
from sharing import tables
from sharing.modes.modes import TimeSlicing, mode_names
from sharing.stack.config import StackConfig
from sharing.stack.pools import GpuNodes, GpuPool
from sharing.verdict.full import judge_fully
from stacks.model_files.web import OFFLINE
from stacks.stack_file import schema, write
from stacks.stack_file.judge import judge_file
from stacks.stack_file.provider_keys import HONOURED, REGION
from stacks.stack_file.yaml import as_yaml
from tandem.doctor.checks import CHECKS
from tandem.dry_run.report import PlanReport

ROOT = Path(__file__).resolve().parent.parent
DECISIONS = ROOT / "docs" / "decisions"
REFERENCE = ROOT / "docs" / "reference"
EMULATION = REFERENCE / "emulation.md"
REAL_WORLD = REFERENCE / "real-world-behaviours.md"
TWO_SIZES = ROOT / "docs" / "how-to" / "share-a-gpu-by-size.md"
WAYS = ROOT / "docs" / "explanation" / "ways-to-share.md"
WHERE = {
    "machine": "this machine",
    "account": "the account",
    "stack": "the stack's needs",
    "cluster": "what is deployed",
}
# As in tests/shipped.py.
STACKS = re.findall(r"^!/Pulumi\.(.+)\.yaml$", (ROOT / ".gitignore").read_text(encoding="utf-8"), re.MULTILINE)

VALUES = ("models-clients", "proof", "registry", "tags")
"""Keys of a stack file that are not sections."""
SEVERAL_KINDS: dict[str, type[BaseModel]] = {"sharing": TimeSlicing, "gpu-nodes": GpuNodes}
"""The kind of a section that the stack `dev` has, where a section has several."""
IN_DEV: dict[str, dict[str, Any]] = {
    "sharing": {"mode": "timeslice"},
    "gpu-nodes": {"instance-types": ["g4dn.xlarge", "g4dn.2xlarge"]},
    "models": {"name": "llama2:7b", "context": 2048},
    "cluster": {"nat": "none", "public-access-cidrs": ["0.0.0.0/0"]},
    "cluster.system-nodes": {"count": 1},
    "budget": {"max-usd-per-hour": 1.25, "max-usd-per-month": 450},
}
"""Values of the stack `dev`, the cheapest that works."""


def find_sections(model: type[BaseModel] = StackConfig, above: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """Each section of a stack file, with the keys that contain it: `cluster.system-nodes`."""
    for key, field in _fields(model):
        path = f"{above}{key}"
        parts = (field.annotation, *get_args(field.annotation))
        kinds = [part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)]
        if path in SEVERAL_KINDS:
            yield path, SEVERAL_KINDS[path]
        elif kinds and path not in VALUES and not key.startswith("aws:"):
            yield path, kinds[0]
            yield from find_sections(kinds[0], f"{path}.")


def main(arguments: list[str]) -> int:
    """Writes or checks every document; returns the exit code."""
    stale = [path for path, text in documents() if not path.is_file() or not _is_current(path, text)]
    if "--check" in arguments:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date. Run `make docs`.")
        return 1 if stale else 0
    for path, text in documents():
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
    of_sizes = limits.find(_config("per-model", _day()))
    yield _with_table(ROOT / "README.md", "limits", limits.sentence(of_sizes))
    yield _with_table(TWO_SIZES, "stack", samples.stack_file("per-model"))
    yield _with_table(TWO_SIZES, "plan", samples.plan("per-model"))
    yield _with_table(TWO_SIZES, "prices", _markdown(limits.rows(of_sizes)))
    yield _with_table(WAYS, "prices", _markdown(limits.rows(of_sizes)))
    yield _with_table(WAYS, "ecs", limits.without_cluster(of_sizes))
    yield _with_table(ROOT / "README.md", "cost", cost_of_dev())
    yield _with_table(ROOT / "README.md", "modes", _markdown(modes.overview(found)))
    yield _with_table(ROOT / "README.md", "plan", samples.plan("timeslice"))
    yield _with_table(ROOT / "docs" / "how-to" / "read-the-models-metrics.md", "metrics", metrics_table())
    yield _with_table(REFERENCE / "changes.md", "changes", effects.changes())
    yield _with_table(ROOT / "docs" / "how-to" / "upgrade.md", "upgrades", effects.upgrades())
    yield _with_table(REFERENCE / "stack-file.md", "keys", keys_table())
    for name, text in speed_tables().items():
        yield _with_table(ROOT / "docs" / "explanation" / "speed.md", name, text)


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


def _provider_keys() -> Iterator[tuple[str, FieldInfo]]:
    """Keys of the AWS provider that a stack file may have, without the region."""
    fields = StackConfig.model_fields.values()
    yield from ((field.alias, field) for field in fields if field.alias in HONOURED and field.alias != REGION)


def _plain(value: object) -> object:
    return value.model_dump(by_alias=True) if isinstance(value, BaseModel) else value


def _fields(model: type[BaseModel]) -> list[tuple[str, FieldInfo]]:
    return [(field.alias or name, field) for name, field in model.model_fields.items()]


def _with_table(path: Path, name: str, table: str) -> tuple[Path, str]:
    """The document with its table written again; two comments mark its place."""
    before, opening, rest = path.read_text(encoding="utf-8").partition(f"<!-- {name}: generated -->\n")
    _, closing, after = rest.partition(f"<!-- /{name} -->")
    assert opening, f"{path.name} has no place for the table {name}"
    assert closing, f"{path.name} does not end the table {name}"
    return path, f"{before}{opening}{table}{closing}{after}"


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
    for stack in STACKS:
        config = _config(stack, _day())
        bill, pool = judge_fully(config).cost, config.pools[0]
        assert bill is not None
        by = ", by Karpenter" if pool.provisioner == "karpenter" else ""
        nodes = f"{config.nodes_of(pool)} × {' or '.join(pool.instance_types)}, {pool.capacity}{by}"
        dedicated = f"{bill.dedicated_usd_per_hour:.2f}"
        rows.append((f"`{stack}`", f"{bill.usd_per_hour:.2f}", f"{bill.usd_per_month:,.0f}", dedicated, nodes))
    return _markdown(rows)


def keys_table() -> str:
    """Every key of a stack file."""
    rows = [("key", "default", "meaning")]
    rows.append(("`aws:region`", "", _meaning("aws:region", StackConfig.model_fields["region"])))
    rows += [(f"`{key}`", "", _meaning(key.rpartition(".")[2], field)) for key, field in _provider_keys()]
    sections = dict(find_sections())
    for section, model in sections.items():
        first, *inner = section.split(".")
        prefix = ".".join(["models[]" if first == "models" else first, *inner])
        for key, field in _fields(model):
            if f"{section}.{key}" not in sections:
                required = field.is_required() or field.default is None or key == "mode"
                default = "" if required else f"`{as_yaml(field.default)}`"
                rows.append((f"`{prefix}.{key}`", default, _what(section, key, field)))
        if model is GpuNodes:
            own = [(key, field) for key, field in _fields(GpuPool) if key not in dict(_fields(GpuNodes))]
            rows += [(f"`{section}[].{key}`", "", _meaning(key, field)) for key, field in own]
    for name in VALUES:
        field = StackConfig.model_fields[name.replace("-", "_")]
        default = "" if field.default is None else f"`{as_yaml(_plain(field.default))}`"
        rows.append((f"`{name}`", default, _meaning(f"tandem:{name}", field)))
    return _markdown(rows)


def _what(section: str, key: str, field: FieldInfo) -> str:
    if (section, key) == ("sharing", "mode"):
        return " \\| ".join(f"`{mode}`" for mode in mode_names())
    return _meaning(key, field)


def _meaning(key: str, field: FieldInfo) -> str:
    """The description of a key, with its example; those of words and truth values say nothing new."""
    [example, *others] = field.examples or [None]
    is_plain = example is None or (others and isinstance(example, str | bool))
    shown = "" if is_plain else f" Example: `{key}: {as_yaml(example)}`."
    return f"{field.description or ''}{shown}"


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
