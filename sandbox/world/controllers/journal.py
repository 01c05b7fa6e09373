"""The journal: starts and stops of processes on GPUs, and changes of the GPUs' configuration, in order."""

from sandbox.world import tokens
from sandbox.world.controllers.plugin import config_of, gpu_state, plugins_on
from sandbox.world.entities import Entities, Entity, Event, Process


def note_stops(entities: Entities) -> None:
    """Records processes that have stopped. A recreated pod has no node yet."""
    for who, process in list(entities.processes.items()):
        pod = entities.get(tokens.POD, who)
        if pod is None or pod.outputs["node"] != process.node:
            del entities.processes[who]
            entities.journal.append(Event(kind="stop", node=process.node, config=process.config, who=who))


def note_modes(entities: Entities) -> None:
    """Records nodes whose configuration has changed, or that have more than one device plugin."""
    for node in entities.of(tokens.NODE):
        gpus = gpu_state(entities, node)
        plugins = [one.id for one in plugins_on(entities, node)]
        clash = ", ".join(plugins) if len(plugins) > 1 else ""
        if clash and clash != gpus.clash:
            entities.journal.append(Event(kind="clash", node=node.id, config="", who=clash))
        gpus.clash = clash
        config = config_of(entities, node)
        if config is not None and config.name != gpus.config:
            entities.journal.append(Event(kind="mode", node=node.id, config=config.name, before=gpus.config))
            gpus.config = config.name


def note_start(entities: Entities, pod: Entity, node: Entity) -> None:
    """Records that a pod starts on a node, if it requests a share."""
    config = config_of(entities, node)
    if config is not None and pod.outputs["needs"]:
        entities.processes[pod.id] = Process(node=node.id, config=config.name, is_mps=config.is_mps)
        entities.journal.append(Event(kind="start", node=node.id, config=config.name, who=pod.id))


def note_proof(entities: Entities, job: Entity, node: Entity) -> None:
    """Records that a Job has completed on a GPU node."""
    config = config_of(entities, node)
    if config is not None:
        entities.journal.append(Event(kind="prove", node=node.id, config=config.name, who=job.id))
