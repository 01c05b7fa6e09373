"""The `ui` section of a stack file."""

from pydantic import Field

from sharing.section import Email, Section

LARGEST_GIB = 16384
"""The largest volume that this accepts: 16 TiB. gp3 has 1 GiB to 64 TiB (Amazon EC2 API reference, CreateVolume)."""


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
    storage_gib: int = Field(
        default=4,
        ge=0,
        le=LARGEST_GIB,
        description="GiB of the volume that keeps accounts, chats and documents until `pulumi destroy` deletes it. It "
        "can grow. With 0, they are lost with the page's pod.",
    )

    @property
    def kept_gib(self) -> int:
        """Size of the volume; 0 if the stack has none."""
        return self.storage_gib if self.enabled else 0
