"""The emulated cloud: what each resource type, function and remote component answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sandbox import identity, kubernetes
from sandbox.aws import functions, resources
from sandbox.eks import cluster
from sandbox.protocol import (
    Answer,
    Construct,
    Constructed,
    Created,
    Creation,
    Question,
    Refused,
    Registrar,
    Registration,
    Rule,
    Values,
)

STACK_REFERENCE = "pulumi:pulumi:StackReference"
RANDOM_ID = "random:index/randomId:RandomId"


def _random_id(creation: Creation) -> tuple[str, Values]:
    """As random as everything here: another for other keepers."""
    keepers = json.dumps(creation.inputs.get("keepers"), sort_keys=True)
    digits = identity.digest(creation.type, creation.name, keepers, length=2 * int(creation.inputs["byteLength"]))
    return digits, {"hex": digits}


class Cloud:
    """A registry of answers. The defaults are `aws`, `kubernetes` and `eks`; what is given here comes before them.

    A type without a rule gets its name as id and its inputs as outputs. Functions and remote components without an
    answer are refused: an invented one would hide a mistake.
    """

    def __init__(
        self,
        *,
        rules: Mapping[str, Rule] | None = None,
        answers: Mapping[str, Answer | Values] | None = None,
        components: Mapping[str, Construct] | None = None,
        stacks: Mapping[str, Values] | None = None,
    ) -> None:
        self._rules: Mapping[str, Rule] = {**resources.RULES, RANDOM_ID: _random_id, **(rules or {})}
        self._answers: Mapping[str, Answer | Values] = {**functions.ANSWERS, **(answers or {})}
        self._components: Mapping[str, Construct] = {**cluster.COMPONENTS, **(components or {})}
        self._stacks = stacks or {}

    def created(self, creation: Creation) -> Created:
        """Id and outputs of a new (or read) resource; they depend on type, name, inputs and region alone."""
        if creation.type == STACK_REFERENCE:
            return self._referenced(creation.inputs["name"])
        rule = self._rules.get(creation.type) or kubernetes.rule(creation.type)
        if rule is None:
            return Created(creation.name, creation.inputs)
        identity, computed = rule(creation)
        return Created(identity, {**creation.inputs, **computed})

    def answer(self, question: Question) -> Values:
        """What an invoke returns. Raises Refused for a function without an answer."""
        answer = self._answers.get(question.token)
        if answer is None:
            raise Refused(
                f"no answer for the function {question.token!r}. Add one to ANSWERS in sandbox/aws/functions.py, "
                f"or give this run its own: Cloud(answers={{{question.token!r}: {{...}}}})."
            )
        return answer(question) if callable(answer) else answer

    def constructed(self, urn: str, component: Registration, registrar: Registrar) -> Constructed:
        """Builds a remote component's children. Raises Refused for a component that nobody can build."""
        construct = self._components.get(component.type)
        if construct is None:
            raise Refused(
                f"nobody builds the remote component {component.type!r} ({component.name!r}). Add it to COMPONENTS "
                f"in sandbox/eks/cluster.py, or give this run its own: Cloud(components={{{component.type!r}: ...}})."
            )
        return construct(urn, component, registrar)

    def _referenced(self, stack: str) -> Created:
        if stack not in self._stacks:
            raise Refused(f"no stack {stack!r}. Give this run its outputs: Cloud(stacks={{{stack!r}: {{...}}}}).")
        outputs: dict[str, Any] = {"name": stack, "outputs": self._stacks[stack], "secretOutputNames": []}
        return Created(stack, outputs)
