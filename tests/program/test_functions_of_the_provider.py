"""Every AWS function that a stack calls uses the stack's own provider: its region, profile and roles."""

from sandbox.cloud.answers import Cloud
from sandbox.cloud.protocol import Question, Values
from sandbox.preview.program import run
from stacks.deploy import deploy
from tests.program.conftest import plan_of


class Listening(Cloud):
    """The emulated cloud, which keeps what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Question] = []

    def answer(self, question: Question) -> Values:
        self.asked.append(question)
        return super().answer(question)


def test_functions_are_called_with_the_stacks_provider() -> None:
    """`tests/components/test_contracts.py` has those of components. A schedule asks for the pools that sleep."""
    cloud, plan = Listening(), plan_of("scheduled")
    run(lambda: deploy(plan), project="tandem", stack=plan.stack, cloud=cloud)
    asked = [question for question in cloud.asked if question.token.startswith("aws:")]
    assert asked
    for question in asked:
        assert question.provider.get("region") == plan.config.region, question.token
