"""A model of the pair: the arguments of OllamaPair's user."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, Literal

import pulumi

from components.arguments import check_arguments, check_least
from components.scaling import Scaling
from sharing.fit.own_limits import judge_limit
from sharing.models.catalogue import KvType, Model, require_model
from sharing.models.importance import Importance
from sharing.models.served import PROMPT_CACHE_MIB, Cache, ServedModel, judge_context
from sharing.models.share import Share
from sharing.verdict.own_program import with_arguments


@check_arguments
@dataclass(frozen=True)
class OllamaModel:
    """One model of the pair, e.g. `OllamaModel("llama2:7b", context=2048)`.

    Raises `ValueError` for a value of the wrong type, a number that is too small, an unknown model, a volume without a
    zone, a volume that is smaller than the model, a context that is longer than the model's maximum, and limits that it
    does not fit.
    """

    model: Model | str
    """The model's tag, e.g. `llama2:7b`, or a `Model` if the catalogue does not have it. In Python, `tandem.find_model`
    returns one."""
    _: KW_ONLY
    id: str | None = None
    """Name of the release and the Service. Defaults to a name derived from the tag, e.g. `llama2-7b`."""
    context: int | None = None
    """Context length of one request, in tokens. Defaults to 4096, or to the model's maximum if that is less."""
    slots: int = 1
    """Number of parallel requests. Each slot has its own KV cache."""
    kv_type: KvType | Literal["f16", "q8_0", "q4_0"] = KvType.F16
    """Data type of the KV cache."""
    batch: int | None = None
    """Tokens that are processed in one step (`num_batch`). Defaults to Ollama's own choice."""
    prompt_cache_mib: int = PROMPT_CACHE_MIB
    """RAM for the prompts of conversations that have lost their slot, in MiB. Defaults to 0: no cache."""
    cache: Cache = "node"
    """Storage of the model files: `node` (a directory on the node's disk) or `volume` (an EBS volume)."""
    volume_gib: int | None = None
    """Size of the EBS volume in GiB. Defaults to a size that fits the model."""
    pool: str | None = None
    """The pool to run on: the value of the label `tandem/pool` on its nodes. Defaults to the only pool of
    `OllamaPairArgs.runs_on`, or to `gpu` without it.
    """
    spill_pools: Sequence[str] = ()
    """Names of other pools that it may run on while its own has no free share, the first choice first. It must fit
    there.
    """
    packed: bool = False
    """Whether it prefers nodes that already run packed models of its pool, so that others become empty."""
    importance: Importance | None = None
    """`high`, `normal` or `low`: a waiting model takes the share of a less important one. If no model has it, no model
    evicts another; otherwise the default is `normal`.
    """
    resource_name: str | None = None
    """Extended resource of which the pod requests one. Defaults to the one that `OllamaPairArgs.runs_on` says, or to
    `nvidia.com/gpu` without it.
    """
    share: Share | None = None
    """Its limits on a pool with `Mps(limits="per-model")`, e.g. `Share(memory_gib=9)`. None for every other mode."""
    running: bool = True
    """False parks the model: its release and volume stay, but no pod runs."""
    scaling: Scaling | None = None
    """How it scales to zero and back, with the component `ScaleToZero`. None: it runs without requests."""
    zone: pulumi.Input[str] | None = None
    """Zone of the EBS volume, which must also be the nodes' zone. Required with `cache="volume"`."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Extra Helm values, merged last."""

    def __post_init__(self) -> None:
        check_least(self, context=1, slots=1, prompt_cache_mib=0)
        model = self.served.model
        if self.cache == "volume" and self.zone is None:
            raise ValueError(
                f'OllamaModel.zone of {model.name} is missing, but cache="volume" needs it. Pass the zone.'
            )
        if self.volume_gib is not None and self.volume_gib * 2**30 < model.file_bytes:
            raise ValueError(
                f"OllamaModel.volume_gib is {self.volume_gib}, which is too small for {model.name}. "
                f"Pass {model.volume_gib}, or leave it out."
            )
        for problem in judge_context(self.served, "OllamaModel") if self.context else ():
            raise ValueError(with_arguments(problem.message))
        if self.share and self.share.memory_mib is not None and (wrong := judge_limit(self.share, self.served)):
            raise ValueError(f"OllamaModel.share of {model.name} {wrong}")
        if self.share and self.spill_pools:
            raise ValueError(
                f"OllamaModel.share of {model.name} holds only on the nodes of `pool`. Remove `spill_pools`."
            )

    @cached_property
    def served(self) -> ServedModel:
        """The model with its settings, as the rules in `sharing` use it."""
        # Without one, a model that supports less than the default gets its own maximum.
        context = {} if self.context is None else {"context": self.context}
        return ServedModel.of(
            require_model(self.model),
            id=self.id or "",
            slots=self.slots,
            kv_type=KvType(self.kv_type),
            prompt_cache_mib=self.prompt_cache_mib,
            batch=self.batch,
            cache=self.cache,
            given_pool=self.pool,
            spill=[*self.spill_pools],
            share=self.share,
            importance=self.importance,
            **context,
        )
