"""The `ui` section of a stack file."""

from pydantic import Field

from sharing.section import Email, Section


class UiSettings(Section):
    """A web page to chat with the models: Open WebUI, on the system nodes."""

    enabled: bool = Field(
        default=False, examples=[True, False], description="Deploy the page. Nobody outside the cluster can reach it."
    )
    admin_email: Email | None = Field(
        default=None,
        examples=["ops@example.com"],
        description="Required with `enabled: true`: e-mail address with which the first administrator logs in. Pulumi "
        "generates the password.",
    )
