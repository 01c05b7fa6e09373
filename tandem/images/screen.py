"""The images and charts of a stack, for people."""

from collections.abc import Mapping, Sequence

from rich.console import Console

from sharing.artifacts import Artifact
from sharing.printable import counted
from tandem.terminal import in_words, say

ELSEWHERE = (
    "Not in this list: EKS's add-ons and the sandbox image of nodes, which come from the registry of EKS in your "
    "region; models, which come from registry.ollama.ai; your own images."
)
TITLES = {"image": "Images, which nodes pull", "chart": "Charts, which the machine with Pulumi pulls"}


def show(console: Console, stack: str, listed: Mapping[Artifact, Sequence[str]], registry: str | None) -> None:
    """Prints each reference on a line of its own, which is never folded: people copy it."""
    of_kind = {kind: [one for one in listed if one.kind == kind] for kind in TITLES}
    say(console, f"{stack}: {' and '.join(counted(len(some), kind) for kind, some in of_kind.items())}", "bold")
    for kind, title in TITLES.items():
        console.print()
        say(console, title, "bold")
        for one in of_kind[kind]:
            say(console, f"  {one.name}:{one.version}")
            if registry:
                say(console, f"    → {one.copy_in(registry)}:{one.version}", fold=False)
            say(console, f"    {one.digest or 'digest unknown'}")
            pin = "digest" if one.pinned_by == "digest" else "its tag" if kind == "image" else "its version"
            size = f", about {one.compressed_mib:,.0f} MiB" if one.compressed_mib else ""
            say(console, f"    pinned by {pin}{size}{f'; for {in_words(listed[one])}' if listed[one] else ''}")
    console.print()
    say(console, ELSEWHERE)
    if registry is None:
        say(console, "hint: with `tandem:registry: HOST/PREFIX`, all of these come from your registry")
