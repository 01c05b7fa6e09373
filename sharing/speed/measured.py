"""Measured speeds, which replace the forecast where GPU, mode, model and slots are the same."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sharing.speed.estimate import Estimate
from sharing.speed.forecast import Speed

FIGURES = ("tokens_per_s", "busy_tokens_per_s", "full_tokens_per_s", "first_token_ms")
"""Of a forecast, and of a measurement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What a benchmark found out about one model; None for what it did not measure."""

    file: str
    """Name of its file."""
    model: str
    """Its tag, as `sharing.models.catalogue.full_name` writes it."""
    gpu: str
    """Name in the catalogue."""
    mode: str
    """`exclusive`, `timeslice`, `mps`, `mps-per-model` or `mig`."""
    sharers: int
    """Pods that may be on the same GPU or slice."""
    profile: str
    """MIG profile; empty without MIG."""
    busy: int
    """Models that may work on that GPU or slice at one time, this one included."""
    threads_percent: int | None = None
    """The part of the GPU's threads that it may use, if it has limits of its own."""
    slots: int
    tokens_per_s: Estimate | None
    busy_tokens_per_s: Estimate | None
    full_tokens_per_s: Estimate | None
    first_token_ms: Estimate | None
    """Of a prompt with about as many tokens as the forecast's."""

    @property
    def key(self) -> tuple[object, ...]:
        """What it is a measurement of."""
        of_share = self.gpu, self.mode, self.sharers, self.profile, self.busy, self.threads_percent
        return self.model, *of_share, self.slots

    @property
    def setup(self) -> str:
        """Where the model was measured."""
        threads = f"with {self.threads_percent} % of the threads" if self.threads_percent else ""
        mode = " ".join(filter(None, (self.mode, self.profile, threads)))
        return f"{self.gpu}, {mode}, {self.busy} of {self.sharers} shares in use, slots: {self.slots}"

    def correct(self, speed: Speed) -> Speed:
        """The forecast with what was measured in its place."""
        known = {name: value for name in FIGURES if (value := getattr(self, name))}
        return replace(speed, **known, measured=frozenset(known))


def find(measurements: Iterable[Measurement], key: tuple[object, ...]) -> Measurement | None:
    """The last measurement with that key."""
    return next((each for each in reversed(list(measurements)) if each.key == key), None)
