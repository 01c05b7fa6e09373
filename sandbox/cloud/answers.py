"""The emulated cloud's replies for each resource type, function and remote component."""

import json
from collections.abc import Mapping

from sandbox.cloud import identity, kubernetes
from sandbox.cloud.aws import functions, resources
from sandbox.cloud.eks import cluster
from sandbox.cloud.protocol import Answer, Constructed, Created, Creation, Question, Refused, Registrar, Rule, Values
from sandbox.graph import Registration

RANDOM_ID = "random:index/randomId:RandomId"
RANDOM_PASSWORD = "random:index/randomPassword:RandomPassword"


def _random_id(creation: Creation) -> tuple[str, Values]:
    """Deterministic like everything here: it only changes with the keepers."""
    keepers = json.dumps(creation.inputs.get("keepers"))
    digits = identity.digest(creation.type, creation.name, keepers, length=2 * int(creation.inputs["byteLength"]))
    return digits, {"hex": digits}


def _random_password(creation: Creation) -> tuple[str, Values]:
    """Deterministic, too. The provider's id says nothing (terraform-provider-random, resource_password.go)."""
    length = int(creation.inputs["length"])
    return "none", {"result": identity.digest(creation.type, creation.name, length=length)}


RULES: Mapping[str, Rule] = {**resources.RULES, RANDOM_ID: _random_id, RANDOM_PASSWORD: _random_password}


class Cloud:
    """The replies of `aws`, `kubernetes`, `eks` and `random`. `answers` override those of functions.

    A type without a rule gets its name as id and its inputs as outputs. Functions and remote components without a reply
    are rejected, because an invented reply would hide an error.
    """

    def __init__(self, *, answers: Mapping[str, Answer | Values] | None = None) -> None:
        self._answers: Mapping[str, Answer | Values] = {**functions.ANSWERS, **(answers or {})}

    def created(self, creation: Creation) -> Created:
        """Id and outputs of a new resource. They only depend on type, name, inputs and region."""
        rule = RULES.get(creation.type) or kubernetes.rule(creation.type)
        if rule is None:
            return Created(creation.name, creation.inputs)
        identity, computed = rule(creation)
        return Created(identity, {**creation.inputs, **computed})

    def answer(self, question: Question) -> Values:
        """The result of an invoke. Raises Refused for a function without a reply."""
        answer = self._answers.get(question.token)
        if answer is None:
            raise Refused(
                f"the function {question.token!r} is not emulated. Add it to sandbox/cloud/aws/functions.py, "
                f"or pass a result for this run: Cloud(answers={{{question.token!r}: {{...}}}})."
            )
        return answer(question) if callable(answer) else answer

    def constructed(self, urn: str, component: Registration, registrar: Registrar) -> Constructed:
        """Builds a remote component's children. Raises Refused for a component that is not emulated."""
        if component.type != cluster.CLUSTER:
            raise Refused(
                f"the remote component {component.type!r} ({component.name!r}) is not emulated. "
                "Add it to sandbox/cloud/answers.py, like eks.Cluster."
            )
        return cluster.construct(urn, component, registrar)
