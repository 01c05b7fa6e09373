"""A stack's resource graph as the text of a golden: in full, or with one line per resource."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from components.ollama_pair.values import start_script
from sandbox.graph import Graph, masked

WIDTH = 120
Described = dict[str, Any]
"""What a golden holds of a stack: outputs and logs under `stack`, and each resource by its part of the URN."""


def describe(graph: Graph) -> Described:
    """Resources by the part of their URN that is the same in every stack, and the outputs that `pulumi up` shows."""
    outputs = dict(masked(graph.stack_outputs))
    if "parking" in outputs:
        # It changes with every version (tests/program/test_parking.py).
        outputs["parking"] = {**outputs["parking"], "plan": "[digest]"}
    shown = {"outputs": outputs, "logs": [f"{log.severity}: {log.message}" for log in graph.logs]}
    return {"stack": shown} | {
        resource.urn.split("::", 2)[2]: {
            "inputs": json.loads(json.dumps(masked(resource.inputs)).replace(json.dumps(start_script())[1:-1], "…")),
            "depends_on": [urn.rsplit("::", 1)[1] for urn in resource.dependencies],
            "options": {
                key: value for key, value in masked(resource.options).items() if key not in ("version", "aliases")
            },
            **({"outputs": masked(graph.outputs[resource.urn])} if resource.urn in graph.outputs else {}),
        }
        for resource in graph
        if resource.type != "pulumi:pulumi:Stack"
    }


def in_full(value: Any, indent: str = "", width: int = WIDTH) -> str:
    """JSON with sorted keys, in which lists and maps that fit on a line stay on one."""
    flat = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if len(indent) + len(flat) <= width or not isinstance(value, dict | list):
        return flat
    deeper = f"{indent} "
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {in_full(value[key], deeper, width)}" for key in sorted(value)]
    else:
        items = [in_full(item, deeper, width) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{deeper}" + f",\n{deeper}".join(items) + f"\n{indent}{closing}"


def in_lines(described: Described) -> str:
    """A line for each resource, `type name ← needs, hash of its inputs and options`, and what a user sees in full."""
    resources = [line_of(urn, resource) for urn, resource in sorted(described.items()) if urn != "stack"]
    return "\n".join([*resources, in_full(described["stack"])])


def line_of(urn: str, resource: Mapping[str, Any]) -> str:
    """The line of a resource. It differs where anything differs that a golden in full would show."""
    kind, name = urn.rsplit("::", 1)
    digest = sha256(json.dumps(resource, sort_keys=True).encode()).hexdigest()[:8]
    needs = ", ".join(sorted({*resource["depends_on"]}))
    return f"{kind} {name}{f' ← {needs}' if needs else ''}, {digest}"
