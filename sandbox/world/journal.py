"""The journal: which processes began and ended on cards, and which config these had, in the order of events."""

from sandbox.world import tokens
from sandbox.world.disruptions import LEFT_EXCLUSIVE
from sandbox.world.plugin import STARTED, config_of, plugins_on
from sandbox.world.things import Event, Thing, Things

CLASH = "plugins"
"""Where a node says which releases ran a device plugin there last."""
IN_FORCE = "config"
"""Where a node says which config its plugin had last. Nobody changes its cards while it has none."""

MPS_IN_FORCE = "mps"
"""Where a node says whether that config shares by MPS."""


def note_stops(things: Things) -> None:
    """Notes what has ended since. A pod that was made anew has no node yet."""
    for who, began in _running(things).items():
        pod = things.get(tokens.POD, who)
        if pod is None or pod.outputs["node"] != began.node:
            things.journal.append(Event(kind="stop", node=began.node, config=began.config, who=who))


def note_modes(things: Things) -> None:
    """Notes which nodes have another configuration than they had, or more than one device plugin."""
    for node in things.of(tokens.NODE):
        plugins = ", ".join(one.id for one in plugins_on(things, node))
        if ", " in plugins and node.outputs.get(CLASH) != plugins:
            things.journal.append(Event(kind="clash", node=node.id, config="", who=plugins))
        node.outputs[CLASH] = plugins
        config, before = config_of(things, node), node.outputs.get(IN_FORCE)
        if config is not None and config.name != before:
            if node.outputs.get(MPS_IN_FORCE) and not config.is_mps:
                node.outputs[LEFT_EXCLUSIVE] = True
            node.outputs[MPS_IN_FORCE] = config.is_mps
            node.outputs[IN_FORCE] = config.name
            things.journal.append(Event(kind="mode", node=node.id, config=config.name, before=before or ""))


def note_start(things: Things, pod: Thing, node: Thing) -> None:
    """Notes that a pod begins on a node, if it wants a share."""
    config = config_of(things, node)
    if config is not None and pod.outputs["needs"]:
        pod.outputs[STARTED] = {"config": config.name, "mps": config.is_mps}
        things.journal.append(Event(kind="start", node=node.id, config=config.name, who=pod.id))


def note_proof(things: Things, job: Thing, node: Thing) -> None:
    """Notes that a Job has completed on a node with a card."""
    config = config_of(things, node)
    if config is not None:
        things.journal.append(Event(kind="prove", node=node.id, config=config.name, who=job.id))


def _running(things: Things) -> dict[str, Event]:
    """The beginnings without an end, by pod."""
    running: dict[str, Event] = {}
    for event in things.journal:
        if event.kind == "start":
            running[event.who] = event
        elif event.kind == "stop":
            running.pop(event.who, None)
    return running
