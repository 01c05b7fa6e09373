"""An emulated cloud that changes outside Pulumi: AWS reclaims nodes, users delete or edit resources."""

import copy
import pickle
from collections.abc import Callable, Collection

from sandbox.world import Entity, Event, World, tokens
from sandbox.world.controllers import reactions
from sandbox.world.controllers.settling import settle
from sandbox.world.entities import DEGRADED, Entities


class Outside(World):
    """The emulated cloud, with the events that no provider causes. None of them checks a rule."""

    def copied(self) -> "Outside":
        """A copy of the emulated cloud, only in memory."""
        world = Outside(patience=0.0)
        with self.changing() as entities:
            # In a tenth of the time of `copy.deepcopy`.
            world._entities = pickle.loads(pickle.dumps(entities))
        return world

    @property
    def recycled(self) -> dict[str, int]:
        """Number of nodes that updates have replaced, by node group."""
        return dict(self._entities.recycled)

    @property
    def peaks(self) -> dict[str, int]:
        """Peak of running vCPUs, by code of the quota."""
        return dict(self._entities.peaks)

    @property
    def journal(self) -> list[Event]:
        """Events that concern GPUs, in order, from all processes that used this state."""
        return list(self._entities.journal)

    def tamper(self, type: str, id: str, change: Callable[[Entity], object]) -> None:
        """Changes a resource. A change of its inputs also changes its outputs, and vice versa."""
        with self.changing() as entities:
            entity = _existing(entities, type, id)
            inputs, outputs = copy.deepcopy(entity.inputs), copy.deepcopy(entity.outputs)
            change(entity)
            for key in {*inputs, *entity.inputs}:
                if entity.inputs.get(key) != inputs.get(key):
                    entity.outputs[key] = copy.deepcopy(entity.inputs.get(key))
                elif entity.outputs.get(key) != outputs.get(key):
                    entity.inputs[key] = copy.deepcopy(entity.outputs.get(key))
            reactions.updated(entities, entity, inputs)

    def forget(self, type: str, id: str) -> None:
        """Deletes a resource."""
        with self.changing() as entities:
            reactions.delete(entities, _existing(entities, type, id))

    def resize(self, group: str, sizes: dict[str, int]) -> None:
        """Sets sizes of a node group, as a schedule of EventBridge does."""

        def change(entity: Entity) -> None:
            entity.inputs["scalingConfig"] = {**entity.inputs["scalingConfig"], **sizes}

        self.tamper(tokens.NODE_GROUP, group, change)

    def reclaim(self, group: str) -> None:
        """Reclaims the spot nodes of a group, without new capacity. The group is DEGRADED until a node starts.

        In aws/containers-roadmap#2326, a user scaled such a group to zero. Our rule still rejects that.
        """
        with self.changing() as entities:
            entity = _existing(entities, tokens.NODE_GROUP, group)
            entity.set_status(DEGRADED)
            for instance in entities.owned_by(entity, tokens.INSTANCE):
                entities.remove(instance)
            settle(entities)

    def allow_vcpus(self, quota: str, vcpus: int) -> None:
        """Sets a quota, by its code in the Service Quotas API. Running instances are not affected."""
        with self.changing() as entities:
            entities.quotas[quota] = vcpus

    def sell(self, instance_type: str, zones: Collection[str]) -> None:
        """From now on, AWS offers the instance type only in these zones."""
        with self.changing() as entities:
            entities.offers[instance_type] = sorted(zones)


def _existing(entities: Entities, type: str, id: str) -> Entity:
    entity = entities.get(type, id)
    assert entity is not None, (type, id)
    return entity
