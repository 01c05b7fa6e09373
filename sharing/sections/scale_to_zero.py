"""The `scale-to-zero` section of a stack file."""

from typing import Literal

from pydantic import Field

from sharing.section import Section

ColdRequests = Literal["wait", "refuse"]


class ScaleToZeroSettings(Section):
    """Models that stop without requests, and start with the next one: KEDA, on the system nodes."""

    enabled: bool = Field(
        default=False,
        examples=[True, False],
        description="Stop models without requests. Karpenter then removes their nodes. Needs `provisioner: karpenter`.",
    )
    idle_minutes: int = Field(
        default=15, ge=1, le=1440, examples=[15], description="Minutes without requests after which a model stops."
    )
    cold_requests: ColdRequests = Field(
        default="wait",
        examples=["wait", "refuse"],
        description="What a request for a stopped model gets: `wait` holds it until the model answers, `refuse` "
        "answers with status 503 and `Retry-After`. Both start the model.",
    )
