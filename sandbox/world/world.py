"""The emulated cloud with a memory, for `up`, `refresh` and `destroy` of the real engine.

Every call is checked against the tables in `rules/`. Then the controllers of AWS and Kubernetes run (`controllers/`).
Calls can come from several threads.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandbox.cloud.answers import Cloud
from sandbox.cloud.identity import digest
from sandbox.cloud.protocol import Question
from sandbox.world import tokens
from sandbox.world.controllers import jobs, reactions
from sandbox.world.durations import minutes
from sandbox.world.entities import (
    CREATE_FAILED,
    STAYS_FAILED,
    CloudError,
    Entities,
    Entity,
    IncompleteError,
    Key,
)
from sandbox.world.foreign import ELSEWHERE
from sandbox.world.providers.callers import Callers
from sandbox.world.providers.changes import Difference, difference
from sandbox.world.providers.descriptions import describe
from sandbox.world.providers.functions import answer
from sandbox.world.providers.kubeconfig import api_server
from sandbox.world.providers.names import named, without_defaults
from sandbox.world.providers.outputs import outputs_after, outputs_of
from sandbox.world.rules import kubernetes
from sandbox.world.rules.every import RULES
from sandbox.world.rules.rule import Case, Moment, refusal
from sandbox.world.store import Store

CALLER = "aws:index/getCallerIdentity:getCallerIdentity"
SESSION = "aws:iam/getSessionContext:getSessionContext"
_KEPT = ("region", "defaultTags")
"""Inputs of a provider that later calls need. They are saved, so they contain no credentials."""


class World:
    """The emulated cloud. `path` is its state file. Without one, it is only in memory.

    `seconds_per_minute` is the time to sleep for each minute of a real `up`, or None. A waiting call, e.g. for pending
    pods, fails when nothing else has changed for `patience` seconds.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        seconds_per_minute: float | None = None,
        patience: float = 10.0,
    ) -> None:
        self._store = Store(path)
        self._entities = self._store.load()
        self.rules = RULES
        self._seconds_per_minute, self._patience = seconds_per_minute, patience
        self._cloud = Cloud(answers={CALLER: self._identity, SESSION: self._session})
        self.callers = Callers()
        self._changed = threading.Condition()
        self._busy = 0
        self._moved_at = time.monotonic()

    def close(self) -> None:
        """Releases the state file for other processes."""
        self._store.close()

    # Calls of a provider.

    def check(self, type: str, name: str, inputs: dict[str, Any], old: dict[str, Any] | None) -> dict[str, Any]:
        """The inputs with generated names. Raises CloudError for inputs that the provider rejects immediately."""
        with self._changed:
            self._touch()
            checked = self._named(type, name, inputs, old)
            self._refuse("check", Case(entities=self._entities, type=type, name=name, inputs=checked))
            return checked

    def diff(self, type: str, old_inputs: dict[str, Any], new_inputs: dict[str, Any]) -> Difference:
        """The effect of a change. Both arguments are checked inputs."""
        with self._changed:
            unready = type == tokens.JOB and jobs.is_replaced(self._entities, new_inputs)
            return difference(type, old_inputs, new_inputs, unready=unready)

    def create(
        self, type: str, name: str, inputs: dict[str, Any], provider: dict[str, Any]
    ) -> tuple[str, dict[str, Any]]:
        """Creates a resource, and returns its id and outputs.

        Raises CloudError, or IncompleteError if the resource exists anyway.
        """
        with self._changed:
            given = self._named(type, name, copy.deepcopy(inputs), None)
            case = Case(
                entities=self._entities,
                type=type,
                name=name,
                inputs=given,
                cluster=api_server(provider) if type.startswith(tokens.KUBERNETES) else "",
                provider=provider,
                caller=self.callers.of(provider),
            )
            self._refuse("check", case)
        with self._call("create", case) as failed:
            serial = self._next()
            identity, outputs = outputs_of(self._cloud, self._entities, type, name, serial, given, provider)
            entity = self._entities.add(
                Entity(
                    type=type,
                    id=identity,
                    name=name,
                    inputs=given,
                    outputs=outputs,
                    cluster=case.cluster,
                    serial=serial,
                    provider={key: value for key, value in provider.items() if key in _KEPT},
                )
            )
            self._entities.buried.pop(entity.key, None)
            if failed is not None and type in STAYS_FAILED:
                entity.set_status(CREATE_FAILED)
            # If the quota is exceeded, some nodes can still start.
            joins = failed is None or failed.code != "NodeCreationFailure"
            reactions.created(self._entities, entity, case.caller, joins=joins)
        return identity, self._answer(entity, failed)

    def read(self, type: str, id: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Current inputs and outputs. None if the resource does not exist. Raises CloudError if no server answers."""
        with self._changed:
            entity = self._found(type, id)
            return copy.deepcopy((entity.inputs, entity.outputs)) if entity else None

    def update(
        self, type: str, id: str, inputs: dict[str, Any], provider: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Updates a resource and returns its outputs. `provider` defaults to the one that created it."""
        entity = self._existing(type, id)
        given = copy.deepcopy(inputs)
        with self._call("update", self._case(entity, given, provider)) as failed:
            entity = self._existing(type, id)
            before, entity.inputs = entity.inputs, given
            entity.outputs = outputs_after(self._cloud, self._entities, entity, before)
            reactions.updated(self._entities, entity, before)
        return self._answer(entity, failed)

    def delete(self, type: str, id: str, provider: dict[str, Any] | None = None) -> None:
        """Deletes a resource. A missing resource is an error only if the provider reports an error."""
        entity = self._found(type, id)
        if entity is None:
            kubernetes.refuse_missing(type, id)
            return
        with self._call("delete", self._case(entity, entity.inputs, provider)):
            found = self._entities.get(type, id)
            if found is not None:
                reactions.delete(self._entities, found)

    def invoke(self, token: str, args: dict[str, Any], provider: dict[str, Any]) -> dict[str, Any]:
        """The result of a function. Raises `Refused` if it is not emulated."""
        question = Question(token=token, args=args, provider=provider)
        with self._changed:
            found = answer(self._entities, question) or describe(self._entities, question, self.callers)
        return dict(self._cloud.answer(question) if found is None else found)

    def _identity(self, question: Question) -> dict[str, Any]:
        return dict(self.callers.identity(question.provider))

    def _session(self, question: Question) -> dict[str, Any]:
        return dict(self.callers.session_context(question.args, question.provider))

    # All resources, for the comparison with Pulumi's state.

    def entities(self) -> list[Entity]:
        """All resources, oldest first."""
        with self._changed:
            return copy.deepcopy(list(self._entities))

    def leftovers(self, known: Collection[Key]) -> list[Entity]:
        """Resources that are not in `known`, except those of others, and what controllers created for known ones."""
        in_state = frozenset((token, identity) for token, identity in known)
        with self._changed:
            left = [one for one in self._entities if not self._entities.is_owned_by_any(one, in_state)]
            return copy.deepcopy([one for one in left if one.made_by != ELSEWHERE])

    @contextmanager
    def changing(self) -> Iterator[Entities]:
        """The resources, for changes outside Pulumi: by AWS, by users, by tests. No rule is checked."""
        with self._changed:
            yield self._entities
            self._save()

    # Steps of a call.

    @contextmanager
    def _call(self, moment: Moment, case: Case) -> Iterator[CloudError | None]:
        """Checks the rules and sleeps without the lock. The body then makes the change under the lock.

        Yields the error with which the call must fail after the change, if any.
        """
        with self._changed:
            self._refuse(moment, case, at_once=True)
            self._busy += 1
        try:
            if self._seconds_per_minute:
                time.sleep(minutes(case.type) * self._seconds_per_minute)
        finally:
            with self._changed:
                self._busy -= 1
                self._touch()
        with self._changed:
            try:
                yield self._wait(moment, case)
                self._touch()
            finally:
                # A call that a rule rejects can leave changes.
                self._save()

    def _wait(self, moment: Moment, case: Case) -> CloudError | None:
        """Waits until no rule rejects the call. Gives up when nothing has changed for `patience` seconds."""
        while (refused := refusal(self.rules, moment, case)) is not None:
            rule, error = refused
            if moment != "delete" and reactions.answer_pending(self._entities, case.type, case.inputs, case.cluster):
                continue
            quiet = self._patience - (time.monotonic() - self._moved_at)
            if not rule.waits or (quiet <= 0 and not self._busy):
                if rule.done and not case.inputs.get("atomic"):
                    return error
                if rule.leaves is not None:
                    rule.leaves(case)
                raise error
            self._changed.wait(max(quiet, 0.05))
        return None

    def _refuse(self, moment: Moment, case: Case, *, at_once: bool = False) -> None:
        rules = [rule for rule in self.rules if not (rule.waits or rule.done)] if at_once else self.rules
        if (refused := refusal(rules, moment, case)) is not None:
            raise refused[1]

    def _touch(self) -> None:
        with self._changed:
            self._moved_at = time.monotonic()
            self._changed.notify_all()

    def _answer(self, entity: Entity, failed: CloudError | None) -> dict[str, Any]:
        """The outputs. Raises `IncompleteError` if the call failed."""
        # After a failed creation, the provider reads nothing back, so values that AWS computes are unknown.
        outputs = copy.deepcopy(without_defaults(entity.inputs) if entity.status == CREATE_FAILED else entity.outputs)
        if failed is not None:
            raise IncompleteError(failed, entity.id, outputs)
        return outputs

    def _case(self, entity: Entity, inputs: dict[str, Any], provider: dict[str, Any] | None = None) -> Case:
        return Case(
            entities=self._entities,
            type=entity.type,
            name=entity.name,
            inputs=inputs,
            id=entity.id,
            entity=entity,
            cluster=entity.cluster,
            provider=entity.provider,
            caller=self.callers.of(provider or entity.provider),
        )

    def _existing(self, token: str, identity: str) -> Entity:
        entity = self._found(token, identity)
        if entity is None:
            raise CloudError("NotFound", f"no {token} has the id {identity!r}")
        return entity

    def _found(self, token: str, identity: str) -> Entity | None:
        with self._changed:
            if (token, identity) in self._entities.buried:
                raise kubernetes.unreachable(self._entities.buried[token, identity])
            return self._entities.get(token, identity)

    def _named(self, token: str, name: str, inputs: dict[str, Any], old: dict[str, Any] | None) -> dict[str, Any]:
        return named(
            token, name, inputs, old, lambda length: digest("name", token, name, str(self._next()), length=length)
        )

    def _next(self) -> int:
        self._entities.serial += 1
        return self._entities.serial

    def _save(self) -> None:
        self._store.save(self._entities)
