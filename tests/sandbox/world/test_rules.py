"""How each rule of the emulated cloud refuses: at once, after a wait, or after the change. The table is by hand."""

from collections import Counter

from sandbox.world.rules.every import RULES

WAITS = {
    # The AWS provider polls until nothing depends on the resource (terraform-provider-aws, internal/service).
    "Vpc delete DependencyViolation": 5,
    "Subnet delete DependencyViolation": 3,
    "SecurityGroup delete DependencyViolation": 2,
    "Volume delete VolumeInUse": 1,
    "InternetGateway delete DependencyViolation": 1,
    "Role delete DeleteConflict": 2,
    "Policy delete DeleteConflict": 1,
    # The kubernetes provider awaits objects, and Helm its hooks and workloads (pulumi-kubernetes, provider/pkg/await).
    "PersistentVolumeClaim create Timeout": 1,
    "PersistentVolumeClaim delete Timeout": 1,
    "PersistentVolume delete Timeout": 1,
    "Release create/update Timeout": 1,
    "Release delete Timeout": 4,
    "Job create DeadlineExceeded": 1,
    "Job create BackoffLimitExceeded": 1,
    "EC2NodeClass/NodePool/NodeOverlay create/update Timeout": 1,
    "NodePool/EC2NodeClass delete Timeout": 1,
    "EC2NodeClass delete Timeout": 1,
}
DONE = {
    # EKS creates the group or add-on, and then reports it as failed.
    "NodeGroup create NodeCreationFailure": 3,
    "NodeGroup create AsgInstanceLaunchFailures": 2,
    "Addon create InsufficientNumberOfReplicas": 1,
    "Addon create/update InsufficientNumberOfReplicas": 1,
    "Release create/update Timeout": 1,
    "Job create DeadlineExceeded": 1,
    "Job create BackoffLimitExceeded": 1,
    "Job update JobFailed": 1,
}


def test_which_rules_wait_and_which_refuse_only_after_the_change() -> None:
    waits: Counter[str] = Counter()
    done: Counter[str] = Counter()
    for rule in RULES:
        types = "/".join(token.rpartition(":")[2] or "any" for token in rule.types)
        name = f"{types} {'/'.join(rule.on)} {rule.code}"
        waits.update([name] * rule.waits)
        done.update([name] * rule.done)
    assert (waits, done) == (WAITS, DONE)
