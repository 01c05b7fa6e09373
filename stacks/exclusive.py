"""One GPU for each model: no sharing, the most nodes."""

from stacks import common
from stacks.config import StackConfig


def stack(config: StackConfig) -> None:
    """Registers the stack."""
    plan = common.accept(config)
    cluster = common.cluster(plan)
    nodes = common.gpu_nodes(plan, cluster)
    sharing = common.device_plugin(plan, cluster, nodes)
    proofs = common.share_proofs(plan, cluster, [sharing])
    pair = common.ollama_pair(plan, cluster, [sharing, *proofs.values()])
    common.export(plan, cluster, sharing, proofs, pair)
