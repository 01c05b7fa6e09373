"""Every AWS function that a stack calls uses the stack's own provider: its region, profile and roles."""

import pytest

from sandbox.cloud.answers import Cloud
from sandbox.cloud.protocol import Question, Values
from sandbox.preview.program import run
from stacks.deploy import deploy
from tests.program.conftest import plan_of
from tests.shipped import STACKS


class Listening(Cloud):
    """The emulated cloud, which keeps what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Question] = []

    def answer(self, question: Question) -> Values:
        self.asked.append(question)
        return super().answer(question)


QUICK = ("timeslice", "karpenter", "scheduled")
"""A node group, Karpenter and a schedule: the parts that call functions. In all others, one could be new."""


@pytest.mark.parametrize(
    "stack", [*QUICK, *(pytest.param(one, marks=pytest.mark.slow) for one in STACKS if one not in QUICK)]
)
def test_functions_are_called_with_the_stacks_provider(stack: str) -> None:
    cloud, plan = Listening(), plan_of(stack)
    run(lambda: deploy(plan), project="tandem", stack=plan.stack, cloud=cloud)
    asked = [question for question in cloud.asked if question.token.startswith("aws:")]
    assert asked
    for question in asked:
        assert question.provider.get("region") == plan.config.region, question.token
