"""What `tandem plan MODEL … --json` says in addition: how the setup was found, and how to keep it."""

from typing import Annotated

from pydantic import BeforeValidator

from tandem.plan_json.parts import Report, Whole, at


class ChoiceReport(Report):
    """The setup that the models of the call got, without a stack file."""

    region: str = at("choice.config.region")
    instance_type: str = at("choice.cell.instance.name")
    way: str = at("choice.cell.way")
    """The sharing mode; MPS and MIG have one per kind of limits, or per strategy."""
    isolation: str = at("choice.isolation")
    margin_mib: Whole = at("choice.tightest.room")
    """What the tightest model has left."""
    under_usd_per_hour: float | None = at("base.config.budget.max_usd_per_hour")
    """The price that was asked for, per hour or per month."""
    under_usd_per_month: float | None = at("base.config.budget.max_usd_per_month")
    hours: str | None
    """When GPU nodes run, from Monday to Friday, as in `8-20 Europe/Paris`; null for always."""
    keep: str
    """A command that writes exactly this setup as a stack file."""
    written: Annotated[str | None, BeforeValidator(lambda path: path and str(path))]
    """The stack file; null without `--write`."""
