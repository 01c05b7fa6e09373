"""An account that answers as a test wants. moto is slower, and accepts even wrong requests."""

import json
from typing import Any

from tests.tandem.aws.emulated import ACCOUNT, REGION


class Account:
    """It answers each operation as a test wants, and keeps the requests."""

    id, region = ACCOUNT, REGION

    def __init__(self, answers: dict[str, Any] | None = None, **page: Any) -> None:
        """`page` is the answer to any other operation."""
        self.answers, self.page = answers or {}, page
        self.requests: list[str] = []

    def client(self, service: str) -> Any:
        account = self

        class Client:
            def __getattr__(self, operation: str) -> Any:
                return lambda **asked: account.ask(service, operation, asked)

        return Client()

    def pages(self, service: str, operation: str, **asked: Any) -> list[Any]:
        return [self.ask(service, operation, asked)]

    def ask(self, service: str, operation: str, asked: dict[str, Any]) -> Any:
        self.requests.append(f"{service} {operation} {json.dumps(asked, sort_keys=True)}")
        answer = self.answers.get(f"{service} {operation}", self.page)
        if isinstance(answer, BaseException):
            raise answer
        return answer
