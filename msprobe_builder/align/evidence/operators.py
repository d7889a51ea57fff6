"""What an API call does, whatever its framework or calling style calls it."""

from __future__ import annotations

from functools import cache
from importlib import resources

# A call of one of these changes the representation of a tensor, not what it says.
CASTS = frozenset(
    {
        *("to", "float", "half", "bfloat16", "double", "type", "type_as", "cast", "astype"),
        *("contiguous", "clone", "detach", "cpu", "cuda", "npu", "copy_"),
    }
)

# Calls that only show a tensor in another form.
LAYOUTS = frozenset(
    {"reshape", "transpose", "permute", "expand", "unsqueeze", "squeeze", "t", "split"}
)
FORMS = CASTS | LAYOUTS

# Calls whose elements are elements of what they are given, in other places.
MOVES = LAYOUTS | frozenset(
    {
        *("cat", "stack", "chunk", "unbind", "getitem", "narrow", "select", "index_select"),
        *("repeat", "repeat_interleave", "roll", "flip", "real", "imag"),
    }
)

# Linear maps: they may take in what stands behind them, a norm or a bias.
MAPS = frozenset(
    {
        *("linear", "conv1d", "conv2d", "conv3d", "matmul", "addmm"),
        *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    }
)

# Calls whose result grows with their weights: one side may have padded these.
PADDED = frozenset({"linear", "embedding", "cross_entropy", "nll_loss", "log_softmax", "softmax"})


@cache
def operator_of(stem: str) -> str:
    """The operation of an API: ``Tensor.__add__``, ``Torch.add`` and ``Mint.add`` are ``add``.

    Collectives stay apart from the functions of the same name.
    """
    prefix, _, rest = stem.partition(".")
    operator = rest.rpartition(".")[2] or prefix
    if operator.startswith("__") and operator.endswith("__") and len(operator) > 4:
        operator = operator[2:-2]
    elif operator.endswith("_") and operator.strip("_"):
        operator = operator.rstrip("_")  # in place
    operator = operator.lower()
    operator = _synonyms().get(operator, operator)
    return f"collective {operator}" if prefix in ("Distributed", "MintDistributed") else operator


@cache
def _synonyms() -> dict[str, str]:
    """The table ``operators.tsv``: other names of an operation, one operation per line."""
    text = resources.files(__package__).joinpath("operators.tsv").read_text("utf-8")
    result = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            operator, *others = line.split()
            result.update(dict.fromkeys(others, operator))
    return result
