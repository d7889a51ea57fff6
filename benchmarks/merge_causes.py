"""Why a merged training differs from the same training on one rank: every cause that is known."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """A difference from the truth; ``place`` is the node it stands below."""

    kind: str
    call: str
    place: str
    is_final: bool  # after the last backward pass, outside of modules
    parameter: str = ""
    detail: str = ""


KINDS = {
    "missing": "calls missing",
    "extra": "calls added",
    "missing tensor": "tensors missing",
    "extra tensor": "tensors added",
    "micro-step": "other micro-step",
    "away": "out of tolerance",
    "unknown": "marked unknown",
    "unknown shape": "shape unknown",
    "other shape": "other shape",
}
VALUE_KINDS = ("away", "unknown", "unknown shape")


def cause(finding: Finding) -> str | None:
    """Why a merge differs from the truth, None when it should not."""
    operator = finding.call.rsplit(".", 2)[0]
    below = finding.place.rpartition(".forward")[0] or finding.place.rpartition(".backward")[0]
    if finding.kind == "extra" and operator.startswith("Distributed."):
        return "communication between the ranks"
    if operator == "Torch.empty":
        if finding.kind == "extra" and finding.place.startswith("Communication_Between_Stages"):
            return "communication between the ranks"
        if finding.kind == "extra" and below.endswith("core_attention.DotProductAttention"):
            return "a buffer that every process allocates once"
        return "uninitialised memory" if finding.kind in VALUE_KINDS else None
    if finding.is_final and operator in _NORMS and finding.kind not in ("missing", "micro-step"):
        return "the training script reduces gradient norms per rank"
    if finding.kind == "unknown shape" and finding.call.startswith("Module."):
        is_attention = "core_attention" in below
        return "calls that reshape are not recorded (L0)" if is_attention else None
    if finding.kind == "missing" and operator == "Tensor.view_as":
        is_column = below.endswith("ColumnParallelLinear")
        return "a branch that Megatron takes without tensor parallelism" if is_column else None
    if operator in ("Tensor.__eq__", "Torch.all") and finding.kind in VALUE_KINDS:
        is_attention = below.endswith("core_attention.DotProductAttention")
        return "the state of the random numbers" if is_attention else None
    if finding.kind in ("extra", *VALUE_KINDS) and operator in _MASKING:
        is_vocabulary = below.endswith("VocabParallelEmbedding")
        is_loss = finding.kind != "extra" and finding.place.startswith("Apis_Between_Modules")
        return "vocabulary masks of each rank" if is_vocabulary or is_loss else None
    return None


_NORMS = frozenset(
    "Tensor.norm Tensor.__pow__ Torch.stack Tensor.sum Distributed.all_reduce".split()
)
_MASKING = frozenset(
    "Tensor.__lt__ Tensor.__ge__ Tensor.__or__ Tensor.__sub__ Tensor.__isub__ Tensor.__rsub__ "
    "Tensor.__setitem__ Tensor.view_as Tensor.float Torch.max Functional.embedding".split()
)


def other_cause(finding: Finding) -> str | None:
    """Why a merge of another training differs from its truth, None when it should not."""
    operator = finding.call.rsplit(".", 2)[0]
    below = finding.place.rpartition(".forward")[0] or finding.place.rpartition(".backward")[0]
    is_embedding = "embedding" in below or "embedding" in finding.call
    if operator == "Torch.baddbmm" and finding.kind == "away" and finding.parameter == "input.0":
        return "uninitialised memory"
    if finding.is_final and operator in _NORMS and finding.kind == "missing":
        return "the training script reduces gradient norms per rank"
    if operator == "Torch.empty" and finding.kind in ("extra", "missing"):
        return "communication between the ranks"
    if operator in ("Torch.empty_like", "Torch.cat") and finding.kind == "extra":
        return "communication between the ranks"
    if operator in ("Tensor.__eq__", "Torch.all") and finding.kind in ("extra", "missing"):
        return "the state of the random numbers"
    if operator == "Tensor.view_as" and finding.kind == "missing":
        is_parallel = "Parallel" in below.rpartition(".")[2]
        return "a branch that Megatron takes without tensor parallelism" if is_parallel else None
    if is_embedding and (operator == "Tensor.transpose" or finding.kind == "other shape"):
        return "sequence parallelism transposes before it scatters"
    if finding.kind == "unknown" and "norm" in finding.call and "grad" in finding.parameter:
        return "each rank has the gradient of its slice of the sequence"
    if operator in ("Tensor.masked_fill", "Functional.embedding"):
        is_vocabulary = below.endswith("VocabParallelEmbedding")
        return "vocabulary masks of each rank" if is_vocabulary else None
    return cause(finding)


_PASSING = frozenset(
    "Tensor.clone Tensor.contiguous Tensor.view Tensor.__getitem__ Tensor.chunk Tensor.argsort "
    "Tensor.index_select Torch.tensor Torch.Gather Torch.cat "
    "Torch._ReduceScatterToSequenceParallelRegion".split()
)
_OPTIMIZER_NORMS = ("Torch.norm", "Torch.tensor", "Torch.zeros", "Tensor.__float__", "Tensor.item")
_REGIONS = ("Torch._CopyToModelParallelRegion", "Torch._ReduceFromModelParallelRegion")
_OWN_SLICE = (
    "each rank adds up its own part",
    "each rank adds up its own share",
    "both factors are cut along what is summed over",
    "its call took in partial results",
)
_RINGS = ("RingAttention", "CPDotProductAttention")
_EXCHANGING = ("CPAttention", "UlyssesContextAttention")
_ROW_NUMBERS = ("Torch.arange", "Tensor.__getitem__", "Tensor.__setitem__")
_GATHERING = "Torch._AllGatherFromTensorParallelRegion"
_TIED = ("extra", "extra tensor", "away")
_OWN_TOKENS = (
    "each rank counts its own tokens",
    "took in something of each rank's own",
    "reduces a shard along one dimension",
)


def spread_cause(finding: Finding) -> str | None:
    """Why a merge of spread experts or sequences differs from its truth, None if it should not."""
    operator = finding.call.rsplit(".", 2)[0]
    is_call = not finding.call.startswith("Module.")
    below = finding.place.rpartition(".forward")[0] or finding.place.rpartition(".backward")[0]
    layer, detail = below.rpartition(".")[2], finding.detail
    if is_call and layer == "MoELayer" and finding.kind not in ("away", "micro-step"):
        return "tokens are sent between the ranks of experts"
    if "experts" in finding.call + below and finding.kind in ("unknown", "unknown shape"):
        return "sums of experts are reduced when tokens are back in order"
    if is_call and layer in _RINGS and not operator.startswith("Distributed."):
        return "a ring computes attention block by block"
    is_unknown = finding.kind in ("unknown", "unknown shape")
    is_own = "embedding" in below + finding.call or "output_layer" in below + finding.call
    if "a weight that several pipeline stages hold" in detail or (
        is_own and finding.kind in _TIED and (operator == "Tensor.add_" or not is_call)
    ):
        return "of a weight that two stages hold each has its share of the gradient"
    if operator == "Tensor.zero_" or (operator == "Tensor.add_" and layer == "GPTModel"):
        return "buckets of the gradients of each rank's own parameters"
    is_empty = finding.kind == "other shape" and ", 0]" in detail
    if "several ranks hold the same part" in detail or (layer == "SelfAttention" and is_empty):
        return "several ranks hold the same keys and values"
    if layer == "DotProductAttention" and operator == "Tensor.repeat_interleave":
        return "several ranks hold the same keys and values"
    if finding.kind == "extra" and (operator == _GATHERING or layer == "Dropout"):
        return "communication between the ranks"
    if is_unknown and any(one in detail for one in _OWN_SLICE):
        return "each rank has the gradient of its slice of the sequence"
    if is_unknown and "grad" in finding.parameter and "partial sums" in detail:
        return "each rank has the gradient of its slice of the sequence"
    if operator == "Torch.CompiledFunction" and finding.kind != "micro-step":
        return "a compiled function takes in its inputs as its compilation orders them"
    is_loss = finding.place.startswith("Apis_Between_Modules")
    if is_loss and operator in _ROW_NUMBERS and finding.kind in ("away", "other shape"):
        return "sums and positions of the tokens of each rank"
    if is_unknown and is_loss and "no call tells" in detail:
        return "vocabulary masks of each rank"
    if is_unknown and is_loss and ("something unknown" in detail or operator == "Tensor.view"):
        return "vocabulary masks of each rank"
    known = _branch(finding, operator, layer) or other_cause(finding)
    if known is None and is_unknown and any(one in detail for one in _OWN_TOKENS):
        is_bias = operator == "Tensor.sum" and layer == "ColumnParallelLinear"
        slice_gradient = "each rank has the gradient of its slice of the sequence"
        return slice_gradient if is_bias else "sums and positions of the tokens of each rank"
    if layer == "CPAttention" and is_unknown and operator == "Torch.einsum":
        return "each rank has the gradient of its slice of the sequence"
    if layer == "CPAttention" and (is_unknown or operator in ("Tensor.chunk", "Torch.cat")):
        return "sums and positions of the tokens of each rank"
    return known


def _branch(finding: Finding, operator: str, layer: str) -> str | None:
    """Calls and memory that a way of splitting has and another has not."""
    memory = ("Tensor.__getitem__", "Tensor.view", "Torch.baddbmm")
    is_shape = finding.kind in VALUE_KINDS or finding.kind == "other shape"
    if layer == "DotProductAttention" and operator in memory and is_shape:
        return "uninitialised memory"
    if finding.is_final and operator in _OPTIMIZER_NORMS:
        return "the training script reduces gradient norms per rank"
    if operator == "Tensor.add_" and layer.startswith("Transformer"):
        return "a gradient is added when it is ready, which may be in the next module"
    if finding.kind == "missing" and operator in _REGIONS:
        return "a branch that Megatron takes without tensor parallelism"
    if finding.kind == "missing" and (operator, layer) == (
        "Tensor.contiguous",
        "LanguageModelEmbedding",
    ):
        return "sequence parallelism transposes before it scatters"
    if finding.kind in ("missing", "extra", "unknown") and operator == "Tensor.item":
        return "the state of the random numbers"
    if finding.kind == "extra" and layer in _EXCHANGING:
        return "communication between the ranks"
    if finding.kind in ("extra", "extra tensor") and operator in _PASSING:
        return "communication between the ranks"
    return None
