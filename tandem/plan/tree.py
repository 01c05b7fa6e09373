"""The resources of a plan as a tree: components in order of startup, each with its children."""

from collections import Counter

from rich.console import Console
from rich.tree import Tree

from sandbox.graph import STACK_TYPE, Graph, Resource
from tandem.dry_run.startup import CLUSTER, STAGES
from tandem.plan.diagram import kind_of
from tandem.terminal import in_markup

ORDER = (CLUSTER, *STAGES)


def show(console: Console, graph: Graph) -> None:
    """Prints every component with the number of its resources by type."""
    console.print()
    tree = Tree(f"[bold]{len(graph)} resources[/], including the stack")
    for root in graph:
        if root.type == STACK_TYPE:
            _branch(tree, graph, root)
    console.print(tree)


def _branch(tree: Tree, graph: Graph, parent: Resource) -> None:
    """Adds the children of a component: first single resources, counted by type, then its own components."""
    children = sorted(graph.children(parent.urn), key=lambda child: (_rank(child), child.urn))
    leaves = Counter(kind_of(child.type) for child in children if not graph.children(child.urn))
    if leaves:
        tree.add(", ".join(f"{kind} × {count}" if count > 1 else kind for kind, count in sorted(leaves.items())))
    for child in children:
        if graph.children(child.urn):
            branch = tree.add(f"{kind_of(child.type)} [bold]{in_markup(child.name)}[/] ({_below(graph, child)})")
            _branch(branch, graph, child)


def _rank(resource: Resource) -> int:
    return ORDER.index(resource.type) if resource.type in ORDER else len(ORDER)


def _below(graph: Graph, resource: Resource) -> int:
    return sum(1 + _below(graph, child) for child in graph.children(resource.urn))
