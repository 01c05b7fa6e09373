"""Chooses the mutants to try: a seeded sample of all packages, denser where a fault costs money or resources."""

import random
import re
from fnmatch import fnmatch
from pathlib import Path

from tests.mutants.faults import Mutant, find_mutants

ROOMS = ("sharing", "catalogue", "components", "stacks", "tandem", "sandbox")
SAMPLE = {
    "order": 10,
    "deletion": 12,
    "quota": 10,
    "recovery": 8,
    "sharing": 45,
    "catalogue": 5,
    "components": 35,
    "stacks": 25,
    "tandem": 35,
    "sandbox": 15,
}
"""How many mutants of 200 come from each part."""
CRITICAL = ("order", "deletion", "quota", "recovery")
"""Parts in which no mutant may survive."""
WAITS = re.compile(r"\b(?:depends_on|after)=(?:\[.*?\]|\(.*?\)|\w+)")
"""Arguments that define an order: for Pulumi, and for `tandem leftovers`."""


def part_of(mutant: Mutant, change: tuple[str, str]) -> str:
    path = mutant.path
    before, after = (WAITS.findall(text.replace("'", '"')) for text in change)
    if before != after:
        return "order"
    if fnmatch(path, "*quota*.py") and not path.startswith("sandbox/"):
        return "quota"
    if path.startswith("tandem/sandbox/") or path in ("sandbox/world/store.py", "sandbox/world/controllers/journal.py"):
        return "recovery"
    if path.startswith(("tandem/aws/", "tandem/leftovers/")):
        return "deletion"
    return path.split("/")[0]


def draw(root: Path, seed: int, count: int) -> list[tuple[str, Mutant]]:
    """`count` mutants with their parts, in random order. The same seed and code give the same ones."""
    parts: dict[str, list[Mutant]] = {part: [] for part in SAMPLE}
    for file in (file for room in ROOMS for file in sorted((root / room).glob("**/*.py"))):
        source = file.read_bytes()
        for mutant in find_mutants(file.relative_to(root).as_posix(), source):
            parts[part_of(mutant, mutant.change(source))].append(mutant)
    chance = random.Random(seed)
    drawn = []
    for part, size in SAMPLE.items():
        chance.shuffle(parts[part])
        drawn += [(part, mutant) for mutant in parts[part][: round(size * count / 200)]]
    chance.shuffle(drawn)
    return drawn
