"""The section `park` of a stack file."""

from functools import cached_property
from typing import Annotated

from pydantic import Field

from sharing.schedule.cron import read_cron
from sharing.schedule.week import EXAMPLES, Timetable
from sharing.section import Fix, Section


class ParkSettings(Section):
    """When the stack has no GPU nodes. Cron text has five fields: minute, hour, day of month, month, weekday."""

    schedule: str = Field(
        examples=[EXAMPLES["schedule"]],
        description="When the stack parks: its GPU nodes stop. Cron text, e.g. `0 20 * * MON-FRI`.",
    )
    wake: Annotated[
        str, Fix(f'Write `wake: "{EXAMPLES["wake"]}"`, for example. Without it, the stack would never wake.')
    ] = Field(
        examples=[EXAMPLES["wake"]], description="When the stack wakes: it gets `max` GPU nodes again. Cron text."
    )
    timezone: str = Field(
        default="UTC", examples=["Europe/Paris"], description="Time zone of both, e.g. `Europe/Paris`."
    )

    @cached_property
    def times(self) -> Timetable:
        """The schedules, read; raises ValueError for those that `sharing.verdict.features.park` refuses."""
        return Timetable(schedule=read_cron(self.schedule), wake=read_cron(self.wake), timezone=self.timezone)
