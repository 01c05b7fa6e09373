"""What a user may share of a benchmark: no addresses, names or ids, only the GPU, the settings and the figures.

`tandem bench --share` writes such a file, and `docs/benchmarks/community/` keeps them. `catalogue/community.py` checks
them, and they join the readings of the forecast.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from sharing.speed.estimate import Estimate


def _in_order(figure: Estimate) -> Estimate:
    if not 0 < figure.low <= figure.value <= figure.high < float("inf"):
        raise ValueError("low, value and high must be above 0 and in this order")
    return figure


Range = Annotated[Estimate, AfterValidator(_in_order)]
"""The median of the repeats, the lowest and the highest."""
Count = Annotated[int, Field(ge=1, le=2**20)]


class Part(BaseModel):
    """A part of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Figures(Part):
    """One model under one load."""

    neighbours: Literal["idle", "busy"]
    """What the other models did that may be on its GPU or slice."""
    at_once: Count
    """Requests at one time, for each model."""
    repeats: Count
    prompt_words: Count
    prompt_tokens: Annotated[int, Field(ge=0, le=2**20)]
    tokens_per_s: Range | None
    """Of one request: 1000 / time between tokens in milliseconds."""
    total_tokens_per_s: Range | None
    """Of all requests, with the time for their prompts."""
    first_token_ms: Range | None


class BenchedModel(Part):
    """A model with its share of a GPU, and its figures."""

    name: str
    digest: str = Field(pattern=r"^[0-9a-f]{1,64}$")
    quantization: str = Field(pattern=r"^[A-Za-z0-9_]{0,20}$")
    context: Count
    slots: Count
    gpu: str
    mode: Literal["exclusive", "timeslice", "mps", "mps-per-model", "mig"]
    profile: str = Field(pattern=r"^[0-9a-z.+]{0,20}$")
    """MIG profile; empty for shares of an entire GPU."""
    sharers: Count
    """Pods that may be on the same GPU or slice."""
    busy: Count
    """Models that may work on it at one time, this one included."""
    threads_percent: Annotated[int, Field(ge=1, le=100)] | None = None
    """The part of the GPU's threads that it may use, if it has limits of its own."""
    figures: list[Figures] = Field(min_length=1)


class Community(Part):
    """A whole file."""

    kind: Literal["tandem community"]
    schema_version: Literal[1]
    date: str = Field(pattern=r"^20\d\d-\d\d-\d\d$")
    driver: str | None = Field(pattern=r"^\d{3}[\d.]{0,12}$")
    """Version of NVIDIA's driver; null if unknown, because an Ollama server does not tell it."""
    engine: str = Field(pattern=r"^(ollama|llama\.cpp) [0-9a-z.+-]{1,30}$")
    output_tokens: Count
    models: list[BenchedModel] = Field(min_length=1)
