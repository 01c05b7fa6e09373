"""The components of somebody's own program."""

import pulumi


class Bucket(pulumi.ComponentResource):
    """A component that has nothing to do with ours."""

    def __init__(self, name: str) -> None:
        super().__init__("theirs:index:Bucket", name)
        self.register_outputs({})
