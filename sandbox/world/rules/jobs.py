"""Rules of Jobs: Pulumi waits for their end, and keeps those that end badly."""

from sandbox.world import jobs, tokens
from sandbox.world.rules.kubernetes import name_of, namespace_of
from sandbox.world.rules.rule import Case, Rule

DOCS = "https://kubernetes.io/docs/concepts/workloads/controllers/job/"
AWAITED = "https://github.com/pulumi/pulumi-kubernetes/blob/master/provider/pkg/await/job.go"


def _late(case: Case) -> str | None:
    return jobs.why_late(case.things, case.cluster, namespace_of(case), name_of(case), case.inputs)


def _failed(case: Case) -> str | None:
    return jobs.why_failed(case.things, case.cluster, namespace_of(case), name_of(case), case.inputs)


def _stays_failed(case: Case) -> str | None:
    """A Job that has ended does not begin again, whatever is changed of it."""
    why = jobs.failure_of(case.thing) if case.thing else None
    return f"{case.id} failed to fully initialize or become live: {why}" if why else None


RULES: tuple[Rule, ...] = (
    Rule((tokens.JOB,), ("create",), jobs.LATE, DOCS + "#job-termination-and-cleanup", _late, waits=True, done=True),
    # The proof looks for a while: the plugin needs some time after a change of its config.
    Rule((tokens.JOB,), ("create",), jobs.FAILED, DOCS + "#pod-backoff-failure-policy", _failed, waits=True, done=True),
    Rule((tokens.JOB,), ("update",), "JobFailed", AWAITED, _stays_failed, done=True),
)
