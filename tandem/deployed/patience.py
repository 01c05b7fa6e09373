"""How long a command waits for a cluster."""

import time
from collections.abc import Callable

POLL_SECONDS = 5.0


class Patience:
    """How long to wait, from its creation."""

    def __init__(
        self,
        seconds: float,
        *,
        tell: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.tell, self._clock, self._sleep = tell, clock, sleep
        self._seconds, self._begun = seconds, clock()

    @property
    def waited(self) -> float:
        """Seconds since its creation."""
        return self._clock() - self._begun

    def lasts(self, why: str) -> bool:
        """Whether there is time for another attempt, after a pause; `why` is the reason to wait."""
        left = self._seconds - self.waited
        if left <= 0:
            return False
        self.tell(why)
        self._sleep(min(POLL_SECONDS, left))
        return True
