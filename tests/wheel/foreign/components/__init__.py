"""The components of a user's own program."""

import pulumi


class Bucket(pulumi.ComponentResource):
    """A component that is unrelated to ours."""

    def __init__(self, name: str) -> None:
        super().__init__("theirs:index:Bucket", name)
        self.register_outputs({})
