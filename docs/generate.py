"""Writes what is derived from the code: `Pulumi.dev.yaml`, the tables of the README, `docs/plan.schema.json`.

    python docs/generate.py            writes them
    python docs/generate.py --check    says which are out of date, exit 1

`tests/test_documents.py` runs the check.
"""

import datetime
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from sharing import tables
from sharing.assessment import assess
from sharing.modes import TimeSlicing
from stacks.config import load_file
from stacks.shape import Budget, ClusterSettings, GpuNodes, GpuPool, ModelSettings, StackConfig, SystemNodes
from tandem.report import PlanReport

ROOT = Path(__file__).resolve().parent.parent
STACKS = ("dev", "timeslice", "mps", "mig", "mig-mixed", "exclusive", "karpenter")

SECTIONS: dict[str, tuple[type[BaseModel], dict[str, Any]]] = {
    "sharing": (TimeSlicing, {"mode": "timeslice"}),
    "gpu-nodes": (GpuNodes, {"instance-types": ["g4dn.xlarge"]}),
    "models": (ModelSettings, {"name": "llama2:7b", "context": 2048}),
    "cluster": (ClusterSettings, {"nat": "none"}),
    "cluster.system-nodes": (SystemNodes, {"count": 1}),
    "budget": (Budget, {"max-usd-per-hour": 0.5}),
}
"""Each section of a stack file, and what the dev stack sets in it: the cheapest that works."""
POOLS_COMMENT = (
    "    # Or a list of pools, each with these keys, a `name`, and `sharing` where it has its own: see the README."
)
MODE_ROWS = {
    "exclusive": ("the whole card", "yes", "one pod per GPU; what sharing is compared with"),
    "timeslice": ("the whole card, first come", "no: neighbours' sum must fit", "chat that is mostly idle"),
    "mps": ("an equal part", "yes, per process", "steady load on both; unverified with Ollama (ollama#9765)"),
    "mig": (
        "the slice's",
        "in hardware",
        "neighbours that must not feel each other; unverified with Ollama (ollama#13800)",
    ),
}


def main(arguments: list[str]) -> int:
    """Writes or checks every document; returns the exit code."""
    stale = [path for path, text in documents() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if "--check" in arguments:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date. Run `make docs`.")
        return 1 if stale else 0
    for path, text in documents():
        path.write_text(text, encoding="utf-8")
    return 0


def documents() -> Iterator[tuple[Path, str]]:
    """Every derived document with the text that it should have."""
    yield ROOT / "Pulumi.dev.yaml", dev_stack()
    yield ROOT / "docs" / "plan.schema.json", plan_schema()
    yield ROOT / "README.md", readme((ROOT / "README.md").read_text(encoding="utf-8"))


def dev_stack() -> str:
    """The stack file that shows every key: set ones as they are, the others as comments with their defaults."""
    region = StackConfig.model_fields["region"].description
    lines = [
        "# The stack to try first: the cheapest that works. Every key is here, commented ones with their default.",
        "config:",
        _line("  ", "aws:region", "us-east-1", region, is_set=True),
    ]
    for section in ("sharing", "gpu-nodes", "models", "cluster", "budget"):
        lines += ["", f"  tandem:{section}:", *_section(section)]
    tags = StackConfig.model_fields["tags"]
    return "\n".join([*lines, "", _line("  ", "tandem:tags", {}, tags.description, is_set=False), ""])


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


def readme(text: str) -> str:
    """The README with its tables made anew; each stands between two comments that name it."""
    tables_by_name = {
        "costs": costs_table(),
        "modes": modes_table(),
        "changes": changes_table(),
        "keys": keys_table(),
    }
    for name, table in tables_by_name.items():
        before, opening, rest = text.partition(f"<!-- {name}: generated -->\n")
        _, closing, after = rest.partition(f"<!-- /{name} -->")
        assert opening, f"README.md has no place for the table {name}"
        assert closing, f"README.md does not end the table {name}"
        text = f"{before}{opening}{table}{closing}{after}"
    return text


def costs_table() -> str:
    """What each stack costs, on the day of the price table."""
    rows = [("stack", "$ an hour", "$ a month", "a GPU for each model", "GPU nodes")]
    day = datetime.date.fromisoformat(tables.read("gpu_prices").date)
    for stack in STACKS:
        setup = _config(stack).setup(day)
        bill, pool = assess(setup).cost, setup.pools[0]
        assert bill is not None
        by = ", by Karpenter" if pool.provisioner == "karpenter" else ""
        nodes = f"{setup.nodes_of(pool)} × {' or '.join(pool.instance_types)}, {pool.capacity}{by}"
        dedicated = f"{bill.dedicated_usd_per_hour:.2f}"
        rows.append((f"`{stack}`", f"{bill.usd_per_hour:.2f}", f"{bill.usd_per_month:.0f}", dedicated, nodes))
    return _markdown(rows)


def modes_table() -> str:
    """The modes side by side."""
    return _markdown(
        [("mode", "a share's memory", "enforced", "good for"), *((f"`{k}`", *v) for k, v in MODE_ROWS.items())]
    )


def changes_table() -> str:
    """What a change does to a stack that is up; `tests/engine/test_changes.py` has the real engine do each row."""
    rows = [("change", "updated in place", "replaced", "nodes recycled", "new", "gone")]
    for row in yaml.safe_load((ROOT / "docs" / "changes.yaml").read_text(encoding="utf-8")):
        done = [", ".join(map(_short, row.get(word, ()))) for word in ("replaced", "created", "deleted")]
        updated = row.get("say") or ", ".join(map(_short, row.get("updated", ())))
        recycled = ", ".join(f"{count} of {_short(group)}" for group, count in row.get("recycled", {}).items())
        rows.append((row["change"], updated, done[0], recycled, *done[1:]))
    return _markdown(rows)


def _short(name: str) -> str:
    return f"`{name.removeprefix('tandem-')}`"


def keys_table() -> str:
    """Every key of a stack file."""
    rows = [("key", "default", "what")]
    rows.append(("`aws:region`", "", StackConfig.model_fields["region"].description or ""))
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
    rows.append(("`tags`", "`{}`", StackConfig.model_fields["tags"].description or ""))
    return _markdown(rows)


def _what(section: str, key: str, field: FieldInfo) -> str:
    if (section, key) == ("sharing", "mode"):
        return " \\| ".join(f"`{mode}`" for mode in MODE_ROWS)
    return field.description or ""


def _markdown(rows: list[tuple[str, ...]]) -> str:
    head, *body = rows
    lines = [head, tuple("---" for _ in head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _config(stack: str) -> StackConfig:
    return load_file(ROOT / f"Pulumi.{stack}.yaml", datetime.date.fromisoformat(tables.read("gpu_prices").date))


def plan_schema() -> str:
    """The JSON schema of `tandem plan --json`."""
    schema = TypeAdapter(PlanReport).json_schema(mode="serialization")
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, indent=2) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
