"""The emulated cloud with a memory, for `up`, `refresh` and `destroy` of the real engine.

Every call is checked against the tables in `rules/`. Then the controllers of AWS and Kubernetes run (`controllers`).
Calls can come from several threads.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandbox.cloud.answers import Cloud
from sandbox.cloud.identity import digest
from sandbox.cloud.protocol import Question
from sandbox.world import controllers, functions, jobs, tokens
from sandbox.world.callers import Callers
from sandbox.world.changes import Difference, difference
from sandbox.world.durations import minutes
from sandbox.world.faults import STAYS_FAILED, Faults
from sandbox.world.kubeconfig import api_server
from sandbox.world.names import named, without_defaults
from sandbox.world.outputs import outputs_after, outputs_of
from sandbox.world.rules import kubernetes
from sandbox.world.rules.every import RULES
from sandbox.world.rules.rule import Case, Moment, refusal
from sandbox.world.store import Store, copied
from sandbox.world.things import (
    CREATE_FAILED,
    DEGRADED,
    CloudError,
    Event,
    IncompleteError,
    Key,
    Lost,
    Thing,
    Things,
)

CALLER = "aws:index/getCallerIdentity:getCallerIdentity"
SESSION = "aws:iam/getSessionContext:getSessionContext"
_KEPT = ("region", "defaultTags")
"""Inputs of a provider that later calls need. They are saved, so there are no credentials among them."""


class World:
    """The emulated cloud. `path` is its state file; without one it is only in memory.

    `seconds_per_minute` is the time to sleep for each minute of a real `up`. A waiting call, e.g. for pending pods,
    fails when nothing else has changed for `patience` seconds. `has_spot` is whether spot is available to this account.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        faults: Faults | None = None,
        seconds_per_minute: float = 0.0,
        patience: float = 10.0,
        has_spot: bool = True,
        things: Things | None = None,
    ) -> None:
        self._store = Store(path)
        self._things = self._store.load() if things is None else things
        self._things.has_spot = has_spot
        self.faults = faults or Faults()
        self._seconds_per_minute, self._patience = seconds_per_minute, patience
        self._cloud = Cloud(answers={CALLER: self._identity, SESSION: self._session})
        self.callers = Callers()
        self._changed = threading.Condition()
        self._busy = 0
        self._moved_at = time.monotonic()

    def copied(self) -> World:
        """A copy of this world, only in memory."""
        with self._changed:
            return World(things=copied(self._things), patience=self._patience)

    def close(self) -> None:
        """Releases the state file for other processes."""
        self._store.close()

    @property
    def recycled(self) -> dict[str, int]:
        """Number of nodes that updates have replaced, by node group."""
        return dict(self._things.recycled)

    @property
    def peaks(self) -> dict[str, int]:
        """Peak of running vCPUs, by code of the quota."""
        return dict(self._things.peaks)

    @property
    def journal(self) -> list[Event]:
        """Events that concern GPUs, in order, from all processes that used this world."""
        with self._changed:
            return list(self._things.journal)

    # Calls of a provider.

    def check(self, type: str, name: str, inputs: dict[str, Any], old: dict[str, Any] | None) -> dict[str, Any]:
        """The inputs with generated names. Raises CloudError for inputs that the provider rejects immediately."""
        with self._changed:
            checked = self._named(type, name, inputs, old)
            self._refuse("check", Case(things=self._things, type=type, name=name, inputs=checked))
            return checked

    def diff(self, type: str, old_inputs: dict[str, Any], new_inputs: dict[str, Any]) -> Difference:
        """The effect of a change. Both arguments are checked inputs."""
        with self._changed:
            self._touch()
            unready = type == tokens.JOB and jobs.is_replaced(self._things, new_inputs)
            return difference(type, old_inputs, new_inputs, unready=unready)

    def create(
        self, type: str, name: str, inputs: dict[str, Any], provider: dict[str, Any]
    ) -> tuple[str, dict[str, Any]]:
        """Creates a resource, and returns its id and outputs.

        Raises CloudError, IncompleteError if the resource exists anyway, or Lost.
        """
        kind, fault = self._faulted(type, "create", name)
        with self._changed:
            given = self._named(type, name, copy.deepcopy(inputs), None)
            case = Case(
                things=self._things,
                type=type,
                name=name,
                inputs=given,
                cluster=api_server(provider) if type.startswith(tokens.KUBERNETES) else "",
                provider=provider,
                caller=self.callers.of(provider),
            )
            self._refuse("check", case)
        with self._call("create", case) as error:
            failed = error or fault
            serial = self._next()
            identity, outputs = outputs_of(self._cloud, self._things, type, name, serial, given, provider)
            thing = self._things.add(
                Thing(
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
            self._things.buried.pop(thing.key, None)
            if failed is not None and type in STAYS_FAILED:
                thing.set_status(CREATE_FAILED)
            # If the quota is exceeded, some nodes can still start.
            joins = fault is None and (error is None or error.code != "NodeCreationFailure")
            controllers.created(self._things, thing, case.caller, joins=joins)
            self._save()
        return identity, self._answer(thing, kind, failed)

    def read(self, type: str, id: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Current inputs and outputs. None if the resource does not exist. Raises CloudError if no server answers."""
        with self._changed:
            self._touch()
            thing = self._found(type, id)
            return copy.deepcopy((thing.inputs, thing.outputs)) if thing else None

    def update(
        self, type: str, id: str, inputs: dict[str, Any], provider: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Updates a resource and returns its outputs. `provider` defaults to the one that created it."""
        thing = self._existing(type, id)
        kind, _ = self._faulted(type, "update", thing.name)
        given = copy.deepcopy(inputs)
        with self._call("update", self._case(thing, given, provider)) as failed:
            thing = self._existing(type, id)
            before, thing.inputs = thing.inputs, given
            thing.outputs = outputs_after(self._cloud, self._things, thing, before)
            controllers.updated(self._things, thing, before)
            self._save()
        return self._answer(thing, kind, failed)

    def delete(self, type: str, id: str, provider: dict[str, Any] | None = None) -> None:
        """Deletes a resource. A missing one is an error only if the provider reports one."""
        thing = self._found(type, id)
        if thing is None:
            kubernetes.refuse_missing(type, id)
            return
        kind, _ = self._faulted(type, "delete", thing.name)
        with self._call("delete", self._case(thing, thing.inputs, provider)):
            found = self._things.get(type, id)
            if found is not None:
                controllers.delete(self._things, found)
                self._save()
        self._answer(thing, kind, None)

    def invoke(self, token: str, args: dict[str, Any], provider: dict[str, Any]) -> dict[str, Any]:
        """The result of a function. Raises `Refused` if it is not emulated."""
        self._touch()
        question = Question(token=token, args=args, provider=provider)
        with self._changed:
            found = functions.answer(self._things, question)
        return dict(self._cloud.answer(question) if found is None else found)

    def _identity(self, question: Question) -> dict[str, Any]:
        return dict(self.callers.identity(question.provider))

    def _session(self, question: Question) -> dict[str, Any]:
        return dict(self.callers.session_context(question.args, question.provider))

    # Changes by tests, or by users outside Pulumi.

    def things(self) -> list[Thing]:
        """All resources, oldest first."""
        with self._changed:
            return copy.deepcopy(list(self._things))

    def leftovers(self, known: Collection[Key]) -> list[Thing]:
        """Resources that are not in `known`, except those that controllers created for known ones."""
        in_state = frozenset((token, identity) for token, identity in known)
        with self._changed:
            return copy.deepcopy([one for one in self._things if not self._things.is_owned_by_any(one, in_state)])

    def tamper(self, type: str, id: str, change: Callable[[Thing], object]) -> None:
        """Changes a resource outside Pulumi. A change of its inputs also changes its outputs, and vice versa."""
        with self._changed:
            thing = self._existing(type, id)
            inputs, outputs = copy.deepcopy(thing.inputs), copy.deepcopy(thing.outputs)
            change(thing)
            for key in {*inputs, *thing.inputs}:
                if thing.inputs.get(key) != inputs.get(key):
                    thing.outputs[key] = copy.deepcopy(thing.inputs.get(key))
                elif thing.outputs.get(key) != outputs.get(key):
                    thing.inputs[key] = copy.deepcopy(thing.outputs.get(key))
            controllers.updated(self._things, thing, inputs)
            self._save()

    def allow_vcpus(self, quota: str, vcpus: int) -> None:
        """Sets a quota, by its code in the Service Quotas API. Running instances are not affected."""
        with self._changed:
            self._things.quotas[quota] = vcpus
            self._save()

    def reclaim(self, id: str) -> None:
        """Reclaims the spot nodes of a group, without new capacity. The group is DEGRADED until a node starts.

        In aws/containers-roadmap#2326, a user scaled such a group to zero. Our rule still rejects that.
        """
        with self._changed:
            group = self._existing(tokens.NODE_GROUP, id)
            group.set_status(DEGRADED)
            controllers.reclaimed(self._things, group)
            self._save()

    def forget(self, type: str, id: str) -> None:
        """Deletes a resource outside Pulumi, without checking any rule."""
        with self._changed:
            thing = self._existing(type, id)
            controllers.delete(self._things, thing)
            self._save()

    def sell(self, instance_type: str, zones: Collection[str]) -> None:
        """From now on, AWS offers the instance type only in these zones."""
        with self._changed:
            self._things.offers[instance_type] = sorted(zones)
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
            yield self._wait(moment, case)
            self._touch()

    def _wait(self, moment: Moment, case: Case) -> CloudError | None:
        """Waits until no rule rejects the call. Gives up when nothing has changed for `patience` seconds."""
        while (refused := refusal(RULES, moment, case)) is not None:
            rule, error = refused
            quiet = self._patience - (time.monotonic() - self._moved_at)
            if not rule.waits or (quiet <= 0 and not self._busy):
                if rule.done and not case.inputs.get("atomic"):
                    return error
                if rule.leaves is not None:
                    rule.leaves(case)
                    self._save()
                raise error
            self._changed.wait(max(quiet, 0.05))
        return None

    def _refuse(self, moment: Moment, case: Case, *, at_once: bool = False) -> None:
        rules = [rule for rule in RULES if not (rule.waits or rule.done)] if at_once else RULES
        if (refused := refusal(rules, moment, case)) is not None:
            raise refused[1]

    def _touch(self) -> None:
        with self._changed:
            self._moved_at = time.monotonic()
            self._changed.notify_all()

    def _faulted(self, token: str, operation: Any, name: str) -> tuple[str | None, CloudError | None]:
        self._touch()
        return self.faults.met(token, operation, name)

    @staticmethod
    def _answer(thing: Thing, kind: str | None, failed: CloudError | None) -> dict[str, Any]:
        """The outputs. Raises `Lost` or `IncompleteError` if a fault requires it."""
        if kind == "lost":
            raise Lost("the call succeeded, but the connection closed before the reply arrived (an injected fault)")
        # After a failed creation, the provider reads nothing back, so values that AWS computes are unknown.
        outputs = copy.deepcopy(without_defaults(thing.inputs) if thing.status == CREATE_FAILED else thing.outputs)
        if failed is not None:
            raise IncompleteError(failed, thing.id, outputs)
        return outputs

    def _case(self, thing: Thing, inputs: dict[str, Any], provider: dict[str, Any] | None = None) -> Case:
        return Case(
            things=self._things,
            type=thing.type,
            name=thing.name,
            inputs=inputs,
            id=thing.id,
            thing=thing,
            cluster=thing.cluster,
            provider=thing.provider,
            caller=self.callers.of(provider or thing.provider),
        )

    def _existing(self, token: str, identity: str) -> Thing:
        thing = self._found(token, identity)
        if thing is None:
            raise CloudError("NotFound", f"no {token} has the id {identity!r}")
        return thing

    def _found(self, token: str, identity: str) -> Thing | None:
        with self._changed:
            if (token, identity) in self._things.buried:
                raise kubernetes.unreachable(self._things.buried[token, identity])
            return self._things.get(token, identity)

    def _named(self, token: str, name: str, inputs: dict[str, Any], old: dict[str, Any] | None) -> dict[str, Any]:
        self._touch()
        return named(
            token, name, inputs, old, lambda length: digest("name", token, name, str(self._next()), length=length)
        )

    def _next(self) -> int:
        self._things.serial += 1
        return self._things.serial

    def _save(self) -> None:
        self._store.save(self._things)
