"""The journal: starts and stops of processes on GPUs, and changes of the GPUs' configuration, in order."""

from sandbox.world import tokens
from sandbox.world.disruptions import LEFT_EXCLUSIVE
from sandbox.world.entities import Entities, Entity, Event
from sandbox.world.plugin import STARTED, config_of, plugins_on

CLASH = "plugins"
"""Key in a node's outputs: the releases that last ran a device plugin there."""
IN_FORCE = "config"
"""Key in a node's outputs: the last config of its plugin. Its GPUs do not change while it has none."""

MPS_IN_FORCE = "mps"
"""Key in a node's outputs: whether that config uses MPS."""


def note_stops(entities: Entities) -> None:
    """Records processes that have stopped. A recreated pod has no node yet."""
    for who, began in _running(entities).items():
        pod = entities.get(tokens.POD, who)
        if pod is None or pod.outputs["node"] != began.node:
            entities.journal.append(Event(kind="stop", node=began.node, config=began.config, who=who))


def note_modes(entities: Entities) -> None:
    """Records nodes whose configuration has changed, or that have more than one device plugin."""
    for node in entities.of(tokens.NODE):
        plugins = ", ".join(one.id for one in plugins_on(entities, node))
        if ", " in plugins and node.outputs.get(CLASH) != plugins:
            entities.journal.append(Event(kind="clash", node=node.id, config="", who=plugins))
        node.outputs[CLASH] = plugins
        config, before = config_of(entities, node), node.outputs.get(IN_FORCE)
        if config is not None and config.name != before:
            if node.outputs.get(MPS_IN_FORCE) and not config.is_mps:
                node.outputs[LEFT_EXCLUSIVE] = True
            node.outputs[MPS_IN_FORCE] = config.is_mps
            node.outputs[IN_FORCE] = config.name
            entities.journal.append(Event(kind="mode", node=node.id, config=config.name, before=before or ""))


def note_start(entities: Entities, pod: Entity, node: Entity) -> None:
    """Records that a pod starts on a node, if it requests a share."""
    config = config_of(entities, node)
    if config is not None and pod.outputs["needs"]:
        pod.outputs[STARTED] = {"config": config.name, "mps": config.is_mps}
        entities.journal.append(Event(kind="start", node=node.id, config=config.name, who=pod.id))


def note_proof(entities: Entities, job: Entity, node: Entity) -> None:
    """Records that a Job has completed on a GPU node."""
    config = config_of(entities, node)
    if config is not None:
        entities.journal.append(Event(kind="prove", node=node.id, config=config.name, who=job.id))


def _running(entities: Entities) -> dict[str, Event]:
    """The starts without a stop, by pod."""
    running: dict[str, Event] = {}
    for event in entities.journal:
        if event.kind == "start":
            running[event.who] = event
        elif event.kind == "stop":
            running.pop(event.who, None)
    return running
