"""Writes what is derived from the code: `Pulumi.dev.yaml`, `docs/plan.schema.json`, and the tables of the documents.

    python docs/generate.py            writes them
    python docs/generate.py --check    says which are out of date, exit 1

`tests/test_documents.py` runs the check.
"""

import contextlib
import datetime
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import emulation
import real_world
import records
import regions
import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from sharing import mig, tables
from sharing.assessment import assess
from sharing.gpus import Gpu, InstanceType, gpus, instance_types
from sharing.matrix import WAYS, Cell, cells, cheapest
from sharing.modes import MOST_TIME_SLICES, Shares, Sharing, TimeSlicing, mode_names
from sharing.setup import Setup
from stacks.stack_file.judge import judge_file
from stacks.stack_file.model_settings import ModelSettings
from stacks.stack_file.provider_keys import HONOURED, REGION
from stacks.stack_file.shape import Budget, ClusterSettings, GpuNodes, GpuPool, StackConfig, SystemNodes
from tandem.doctor.checks import CHECKS
from tandem.planned.report import PlanReport

ROOT = Path(__file__).resolve().parent.parent
DECISIONS = ROOT / "docs" / "decisions"
REFERENCE = ROOT / "docs" / "reference"
EMULATION = REFERENCE / "emulation.md"
REAL_WORLD = REFERENCE / "real-world-behaviours.md"
WHERE = {
    "machine": "this machine",
    "account": "the account",
    "stack": "the stack's needs",
    "cluster": "what is deployed",
}
STACKS = ("dev", "timeslice", "mps", "mig", "mig-mixed", "exclusive", "karpenter")

SECTIONS: dict[str, tuple[type[BaseModel], dict[str, Any]]] = {
    "sharing": (TimeSlicing, {"mode": "timeslice"}),
    "gpu-nodes": (GpuNodes, {"instance-types": ["g4dn.xlarge", "g4dn.2xlarge"]}),
    "models": (ModelSettings, {"name": "llama2:7b", "context": 2048}),
    "cluster": (ClusterSettings, {"nat": "none", "public-access-cidrs": ["0.0.0.0/0"]}),
    "cluster.system-nodes": (SystemNodes, {"count": 1}),
    "budget": (Budget, {"max-usd-per-hour": 1.25}),
}
"""Each section of a stack file, and what the dev stack sets in it: the cheapest that works."""
VALUES = ("models-clients", "proof", "tags")
"""Keys of a stack file that are no sections."""
POOLS_COMMENT = (
    "    # Or a list of pools, each with these keys, a `name`, and its own `sharing`: "
    "see docs/how-to/use-several-pools.md."
)
WHEN = {
    "exclusive": "models that must never wait for each other; what sharing is compared with",
    "timeslice": "chat that is mostly idle",
    "mps": "steady load on both; unverified with Ollama (ollama#9765)",
    "mig-single": "models of one size that must not feel each other; unverified with Ollama (ollama#13800)",
    "mig-mixed": "the same for models of unequal size",
}
"""When to choose a way of sharing: the one column of the comparison that no rule says."""


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
    yield DECISIONS / "README.md", records.index(DECISIONS)
    yield REAL_WORLD, real_world.document(ROOT)
    yield REFERENCE / "regions.md", regions.document()
    yield _with_table(EMULATION, "rules", _markdown(emulation.rows()))
    yield _with_table(ROOT / "README.md", "costs", costs_table())
    yield _with_table(ROOT / "docs" / "how-to" / "before-your-first-up.md", "checks", checks_table())
    yield _with_table(REFERENCE / "sharing-modes.md", "modes", modes_table())
    yield _with_table(REFERENCE / "changes.md", "changes", changes_table())
    yield _with_table(REFERENCE / "stack-file.md", "keys", keys_table())


def dev_stack() -> str:
    """The stack file that shows every key: set ones as they are, the others as comments with their defaults."""
    region = StackConfig.model_fields["region"].description
    lines = [
        "# The stack to try first: the cheapest that works. Every key is here, commented ones with their default.",
        "config:",
        _line("  ", "aws:region", "us-east-1", region, is_set=True),
        *(_line("  ", key, _plain(field.default), field.description, is_set=False) for key, field in _provider_keys()),
    ]
    for section in ("sharing", "gpu-nodes", "models", "cluster"):
        lines += ["", f"  tandem:{section}:", *_section(section)]
    lines.append("")
    for name in VALUES:
        field = StackConfig.model_fields[name.replace("-", "_")]
        lines.append(_line("  ", f"tandem:{name}", _plain(field.default), field.description, is_set=False))
    # A set key is last: `pulumi stack init` (3.260) moves comments at the end out of `config:`.
    return "\n".join([*lines, "", "  tandem:budget:", *_section("budget"), ""])


def _provider_keys() -> Iterator[tuple[str, FieldInfo]]:
    """Keys of the AWS provider that a stack file may have, without the region."""
    fields = StackConfig.model_fields.values()
    yield from ((field.alias, field) for field in fields if field.alias in HONOURED and field.alias != REGION)


def _plain(value: object) -> object:
    return value.model_dump() if isinstance(value, BaseModel) else value


def _section(section: str) -> Iterator[str]:
    model, chosen = SECTIONS[section]
    lead = "    - " if section == "models" else "    "
    for key, field in _fields(model):
        nested = f"{section}.{key}"
        if nested in SECTIONS:
            yield f"    {key}:"
            inner, inner_chosen = SECTIONS[nested]
            for inner_key, inner_field in _fields(inner):
                yield _setting("      ", inner_key, inner_field, inner_chosen)
        else:
            yield _setting(lead, key, field, chosen)
            lead = " " * len(lead)
    if section == "gpu-nodes":
        yield POOLS_COMMENT
    if section == "models":
        yield '    - {name: "mistral:7b", context: 2048}'


def _setting(lead: str, key: str, field: FieldInfo, chosen: dict[str, Any]) -> str:
    value = chosen.get(key, None if field.is_required() else field.default)
    return _line(lead, key, value, field.description, is_set=key in chosen)


def _line(lead: str, key: str, value: Any, description: str | None, *, is_set: bool) -> str:
    setting = f"{lead}{'' if is_set else '# '}{key}: {_yaml(value)}"
    return f"{setting:<45} # {description}"


def _yaml(value: Any) -> str:
    return json.dumps(value) if not isinstance(value, str) or ":" in value or value[0].isdigit() else value


def _fields(model: type[BaseModel]) -> list[tuple[str, FieldInfo]]:
    return [(field.alias or name, field) for name, field in model.model_fields.items()]


def _with_table(path: Path, name: str, table: str) -> tuple[Path, str]:
    """The document with its table written again; two comments say where it stands."""
    before, opening, rest = path.read_text(encoding="utf-8").partition(f"<!-- {name}: generated -->\n")
    _, closing, after = rest.partition(f"<!-- /{name} -->")
    assert opening, f"{path.name} has no place for the table {name}"
    assert closing, f"{path.name} does not end the table {name}"
    return path, f"{before}{opening}{table}{closing}{after}"


def checks_table() -> str:
    """What `tandem doctor` checks, in its order."""
    rows = [("check", "requirement", "where it looks")]
    rows += [(check.title, check.about, WHERE[check.source]) for check in CHECKS]
    return _markdown(rows)


def costs_table() -> str:
    """What each stack costs, on the day of the price table."""
    rows = [("stack", "$ per hour", "$ per month", "a GPU for each model", "GPU nodes")]
    day = datetime.date.fromisoformat(tables.read("gpu_prices").date)
    for stack in STACKS:
        setup = _setup(stack, day)
        bill, pool = assess(setup).cost, setup.pools[0]
        assert bill is not None
        by = ", by Karpenter" if pool.provisioner == "karpenter" else ""
        nodes = f"{setup.nodes_of(pool)} × {' or '.join(pool.instance_types)}, {pool.capacity}{by}"
        dedicated = f"{bill.dedicated_usd_per_hour:.2f}"
        rows.append((f"`{stack}`", f"{bill.usd_per_hour:.2f}", f"{bill.usd_per_month:,.0f}", dedicated, nodes))
    return _markdown(rows)


def modes_table() -> str:
    """The ways of sharing side by side, as the modes answer and the rules judge the pair of the stack `timeslice`."""
    day = datetime.date.fromisoformat(tables.read("gpu_prices").date)
    found = list(cells(_setup("timeslice", day)))
    head = ("way", "a share's memory", "isolation", "shares of a GPU", "GPUs that hold the pair")
    rows = [(*head, "cheapest, $ per hour", "when to choose")]
    for way in WAYS:
        planned = [cell for cell in found if cell.way == way and cell.plans]
        sharing, shares = planned[0].pool.sharing, planned[0].pool.offers[0]
        strategy = f", `strategy: {sharing.strategy}`" if sharing.strategy else ""
        name = f"`{sharing.mode}`{strategy}"
        rows.append(
            (name, _memory(shares), _isolation(shares), _counts(way), _cards(planned), _cheap(planned), WHEN[way])
        )
    return _markdown(rows)


def _memory(shares: Shares) -> str:
    if shares.memory_mib is None:
        return "the whole card, first come"
    if shares.profile:
        return "the slice's"
    return "the whole card" if shares.memory_mib == shares.unit_mib else "an equal part"


def _isolation(shares: Shares) -> str:
    if not shares.enforced:
        return "none: neighbours' sum must fit"
    if shares.profile:
        return "in hardware"
    return "alone on the card" if shares.sharers == 1 else "memory, per process"


def _counts(way: str) -> str:
    """How many shares a card can have: of most cards, then of those that can have fewer."""
    most: dict[str, int] = {}
    least = MOST_TIME_SLICES
    for gpu in gpus().values():
        counts = [sum(shares.per_gpu for shares in sharing.offers(gpu)) for sharing in _sharings(way, gpu)]
        if gpu.vendor == "nvidia" and counts:
            most[gpu.title], least = max(counts), min(least, *counts)
    bound = max(most.values())
    fewer = ", ".join(f"{least}–{count} on {title}" for title, count in most.items() if count < bound)
    return (f"{least}–{bound}" if least < bound else f"{bound}") + (f" ({fewer})" if fewer else "")


def _sharings(way: str, gpu: Gpu) -> Iterator[Sharing]:
    """Every setting that `gpu` takes for a way of sharing."""
    mode, _, strategy = way.partition("-")
    settings: list[dict[str, Any]] = [{"replicas": count} for count in range(2, MOST_TIME_SLICES + 1)]
    if strategy:
        written = [[{"profile": each.name, "count": count} for each, count in cut] for cut in mig.layouts(gpu)]
        settings = [{"strategy": strategy, "layout": layout} for layout in written]
    for setting in settings:
        with contextlib.suppress(ValidationError):
            sharing: Sharing = TypeAdapter(Sharing).validate_python({"mode": mode, **setting})
            if not sharing.check(gpu):
                yield sharing


def _cards(planned: Sequence[Cell]) -> str:
    """The cards and the number of types on which the pair plans."""
    known = dict.fromkeys(_card(each) for each in instance_types().values() if each.gpu.vendor == "nvidia")
    holding = dict.fromkeys(_card(cell.instance) for cell in planned)
    types = len({cell.instance.name for cell in planned})
    others = [card for card in known if card not in holding]
    cards = f"all but {', '.join(others)}" if len(others) < len(holding) else ", ".join(holding)
    only = {cell.pool.provisioner for cell in planned}
    return f"{cards} ({types} types{'' if len(only) > 1 else f', {only.pop()} alone'})"


def _card(instance: InstanceType) -> str:
    return instance.gpu.name.partition("/")[0].upper()


def _cheap(planned: Sequence[Cell]) -> str:
    spot, full = cheapest(planned, "spot"), cheapest(planned, "on-demand")
    assert spot, "a way of sharing that holds the pair nowhere is none"
    assert full, "what plans has a price"
    nodes = [f"{cell.nodes} × {cell.instance.name}" for cell in (spot, full)]
    return f"{spot.usd_per_hour:.2f} spot ({nodes[0]}), {full.on_demand_usd_per_hour:.2f} on demand ({nodes[1]})"


def changes_table() -> str:
    """What a change does to a stack that is up; `tests/engine/test_changes.py` has the real engine do each row."""
    rows = [("change", "updated in place", "replaced", "nodes recycled", "new", "gone", "vCPUs meanwhile", "models")]
    for row in yaml.safe_load((ROOT / "docs" / "changes.yaml").read_text(encoding="utf-8")):
        done = [", ".join(map(_short, row.get(word, ()))) for word in ("replaced", "created", "deleted")]
        updated = row.get("say") or ", ".join(map(_short, row.get("updated", ())))
        recycled = ", ".join(f"{count} of {_short(group)}" for group, count in row.get("recycled", {}).items())
        vcpus = ", ".join(f"{count} {quota}" for quota, count in row.get("vcpus", {}).items())
        rows.append((row["change"], updated, done[0], recycled, *done[1:], vcpus, row.get("models", "")))
    return _markdown(rows)


def _short(name: str) -> str:
    return f"`{name.removeprefix('tandem-')}`"


def keys_table() -> str:
    """Every key of a stack file."""
    rows = [("key", "default", "what")]
    rows.append(("`aws:region`", "", StackConfig.model_fields["region"].description or ""))
    rows += [(f"`{key}`", "", field.description or "") for key, field in _provider_keys()]
    for section, (model, _) in SECTIONS.items():
        prefix = "models[]" if section == "models" else section
        for key, field in _fields(model):
            if f"{section}.{key}" not in SECTIONS:
                required = field.is_required() or field.default is None or key == "mode"
                default = "" if required else f"`{_yaml(field.default)}`"
                rows.append((f"`{prefix}.{key}`", default, _what(section, key, field)))
        if model is GpuNodes:
            own = [(key, field) for key, field in _fields(GpuPool) if key not in dict(_fields(GpuNodes))]
            rows += [(f"`{section}[].{key}`", "", field.description or "") for key, field in own]
    for name in VALUES:
        field = StackConfig.model_fields[name.replace("-", "_")]
        rows.append((f"`{name}`", f"`{_yaml(_plain(field.default))}`", field.description or ""))
    return _markdown(rows)


def _what(section: str, key: str, field: FieldInfo) -> str:
    if (section, key) == ("sharing", "mode"):
        return " \\| ".join(f"`{mode}`" for mode in mode_names())
    return field.description or ""


def _markdown(rows: Sequence[tuple[str, ...]]) -> str:
    head, *body = rows
    lines = [head, tuple("---" for _ in head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _setup(stack: str, day: datetime.date) -> Setup:
    return judge_file(ROOT / f"Pulumi.{stack}.yaml", today=day).plan().setup


def plan_schema() -> str:
    """The JSON schema of `tandem plan --json`."""
    schema = TypeAdapter(PlanReport).json_schema(mode="serialization")
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, indent=2) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
