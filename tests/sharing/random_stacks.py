"""Random stacks, for properties that hold for every stack."""

from hypothesis import strategies as st

from sharing.hardware.gpus import instance_types
from sharing.models.catalogue import KvType, models
from sharing.sections.config import StackConfig
from tests.sharing.builders import mode, pool, served, setup, tenants

NVIDIA = [known for known in instance_types().values() if known.gpu.vendor == "nvidia"]
CONTEXTS = (256, 512, 1000, 2048, 4096, 8192, 32768)
SERVED = st.builds(
    lambda name, context, slots, kv_type: served(name, context=context, slots=slots, kv_type=kv_type),
    st.sampled_from(list(models())),
    st.sampled_from(CONTEXTS),
    st.integers(1, 8),
    st.sampled_from(list(KvType)),
)
SHARINGS = st.builds(mode, st.sampled_from(["exclusive", "timeslice", "mps", "mps-per-model"]), st.integers(2, 6))


@st.composite
def setups(draw: st.DrawFn) -> StackConfig:
    """Models on one node with a share for each, so that the only question is whether they fit."""
    known = draw(st.sampled_from(NVIDIA))
    sharing = draw(SHARINGS)
    most = min(known.gpus * sharing.offers(known.gpu)[0].per_gpu, 4)
    them = draw(st.lists(SERVED, min_size=1, max_size=most))
    return setup(pools=(pool(known.name, sharing, volume_gib=2000),), models=tenants(*them), nat="single")
