"""JSON as a reviewer of a golden reads it: lines of 120 columns, filled with what fits."""

import json
from typing import Any

WIDTH = 120


def laid_out(value: Any, indent: int = 0) -> str:
    """The value as JSON. An object that does not fit a line has its short members side by side."""
    text = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(text) <= WIDTH - indent:
        return text
    pad, lines = " " * (indent + 1), [""]
    members = value.items() if isinstance(value, dict) else (("", each) for each in value)
    for key, each in members:
        part = f"{json.dumps(key, ensure_ascii=False)}: " * isinstance(value, dict) + laid_out(each, indent + 1) + ","
        fits = len(lines[-1]) + len(part) < WIDTH and "\n" not in part and not isinstance(each, dict)
        if lines[-1] and fits:
            lines[-1] += f" {part}"
        else:
            lines.append(pad + part)
    start, end = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([start, *lines[1:]]).removesuffix(",") + f"\n{' ' * indent}{end}"
