"""Interruptions of a pod that are not its program's fault: a spot interruption, an eviction, a shutdown of its node."""

from typing import Any

SPOT_NOTICE_SECONDS = 120
"""Time between the notice of a spot interruption and the end of the instance.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
"""
DISRUPTED: dict[str, Any] = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}
"""A rule of `podFailurePolicy`: a pod that stops because of a node shutdown, an eviction or a spot interruption is
replaced, and does not fail the Job.

The action is never `FailJob`: Pulumi does not know that reason and keeps waiting (pulumi-kubernetes
provider/pkg/await/checker/job/check.go, collectJobConditionErrors).
"""
