"""The section `models[].share` of a stack file: what one model may use of its GPU under `limits: per-model`."""

from typing import Annotated

from pydantic import Field

from sharing.section import Constructed, Fix, Number, Section

MIB_PER_GIB = 1024


class Share(Constructed, Section):
    """Limits of one model on a GPU that it shares by MPS. Nothing is reserved: limits of threads may overlap."""

    memory_gib: Annotated[Number | None, Fix("Write a number of GiB, or remove it.")] = Field(
        default=None,
        gt=0,
        le=2048,
        examples=[9],
        description="GPU memory that its process may take at most, in GiB. Default: what the plan says that it needs, "
        "with its margin, and an equal part of what is left.",
    )
    compute_percent: Annotated[int | None, Fix("Write a number from 1 to 100, or remove it to allow all.")] = Field(
        default=None,
        ge=1,
        le=100,
        examples=[60],
        description="Part of the GPU's threads that it may use at most; the parts of all models may add up to more "
        "than 100. Default: all, so an idle neighbour costs nothing.",
    )

    @property
    def memory_mib(self) -> int | None:
        """The limit in MiB; None if the plan sets it."""
        return None if self.memory_gib is None else int(self.memory_gib * MIB_PER_GIB)

    @property
    def threads(self) -> float:
        """Part of the GPU's threads, from 0 to 1."""
        return (self.compute_percent or 100) / 100
