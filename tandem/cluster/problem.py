"""Why a cluster cannot be looked at: one line, with the way out."""


class NotConnectedError(Exception):
    """The cluster, or the way to it, is not there; says what to do."""

    def __init__(self, text: str, *, passing: bool = False) -> None:
        super().__init__(text)
        self.passing = passing
        """Whether it may be otherwise in a minute, with nobody doing anything."""
