"""How much of the error of its inputs an operator may show at its output, by its kind.

Few kinds are told apart, each for one reason:

sums        errors add up as amounts, not as fractions: what cancels makes a small error look large
            and what is added to something large makes a large one look small
products    sums of many products: the terms may cancel as well
curves      exp, softmax, sin and their like see how far their input moved, not by which fraction
selections  a part is picked, which may hold all of the error and little of the size
choices     integers: one step aside is another choice, and everything behind it is another number
steps       what is rounded to whole numbers: a little more or less is a whole one
random      the output is drawn; it agrees only where both runs drew alike
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import UNINITIALISED
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.calls import Calls, communicates, operator_of
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import Part
from msprobe_builder.metrics.comparison import Comparisons
from msprobe_builder.verdict.differences.distance import is_other_precision


class Family(IntEnum):
    """What is known of an operator's conduct."""

    PLAIN = 0
    SUM = 1
    PRODUCT = 2
    CURVE = 3
    RANDOM = 4
    UNINITIALISED = 5
    COMMUNICATION = 6
    SELECTION = 7


_WORDS = {
    Family.SUM: "add radd iadd sub rsub isub addcmul addcdiv cat concat stack mean sum cumsum "
    "index_add scatter_add lerp layer_norm batch_norm group_norm instance_norm std var norm",
    Family.PRODUCT: "matmul rmatmul mm bmm linear addmm baddbmm addbmm einsum conv1d conv2d conv3d "
    "conv_transpose1d conv_transpose2d conv_transpose3d dot mv outer bilinear "
    "lstm gru rnn_tanh rnn_relu lstm_cell gru_cell "
    "scaled_dot_product_attention npu_fusion_attention multi_head_attention_forward",
    Family.CURVE: "softmax log_softmax exp exp2 expm1 softplus logsigmoid sin cos tan sigmoid "
    "cross_entropy logsumexp pow rpow "
    "log slogdet logdet nll_loss ctc_loss binary_cross_entropy_with_logits kl_div",
    Family.SELECTION: "getitem select narrow chunk split unbind gather index_select masked_select "
    "take_along_dim masked_fill where triu tril diagonal embedding",
    Family.RANDOM: "dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout rand "
    "rand_like randn randn_like randint randperm bernoulli multinomial normal uniform exponential "
    "rrelu gumbel_softmax random poisson",
}
_FAMILY = {word: family for family, words in _WORDS.items() for word in words.split()}
_FAMILY |= dict.fromkeys(UNINITIALISED, Family.UNINITIALISED)


def families(calls: Calls) -> NDArray[np.int64]:
    """The family of each node; modules are plain, unless nothing else was recorded."""
    if calls.is_api.any():
        return np.where(calls.is_api, calls.of_stems(_family), Family.PLAIN)
    return np.where(calls.is_module, calls.of_stems(_family_of_class), Family.PLAIN)


@lru_cache(maxsize=4096)
def _family(stem: str) -> int:
    if communicates(stem):
        return Family.COMMUNICATION
    return _FAMILY.get(operator_of(stem), Family.PLAIN)


_CLASSES = {word.replace("_", ""): family for word, family in _FAMILY.items()}


def _family_of_class(stem: str) -> int:
    """Of a module that is named after its operator: ``BatchNorm2d``, ``LlamaRMSNorm``."""
    name = operator_of(stem).lower()
    if _is_norm(name):
        return Family.SUM
    return _CLASSES.get(name, Family.PLAIN)


def _is_norm(name: str) -> bool:
    return name.rstrip("123d").endswith("norm")


# Of a determinant: a sum of logarithms, which cancels near 1 whatever is given.
DETERMINANTS = frozenset({"slogdet", "logdet"})
LOGARITHMS = frozenset({"log", "log2", "log10"}) | DETERMINANTS
DIVIDING = frozenset({"rsqrt", "reciprocal", "rtruediv", "rdiv"})
QUOTIENTS = frozenset({"truediv", "div", "divide", "true_divide"})
SLOPES_DIVIDE = frozenset({"sqrt", "log", "log2", "log10"})
# Of a path of many steps: a sum of their logarithms, whose exponential its gradient is made of.
PATHS = frozenset({"ctc_loss", "ctcloss"})
WAVES = frozenset({"sin", "cos", "tan"})

SUBTRACTING = frozenset("sub rsub isub".split())
MULTIPLYING = frozenset("mul rmul imul".split())
ADDING = frozenset("add radd iadd".split()) | SUBTRACTING

# Elements stand elsewhere behind these, which their statistics do not tell.
REORDERING = frozenset(
    "flip fliplr flipud roll rot90 index_select gather take_along_dim sort".split()
)

# These move all that they are given by one rule.
TURNING = frozenset("flip fliplr flipud roll rot90".split())

# Where nothing is to be converted these hand on the tensor itself, and its gradient with it.
CASTS = frozenset("to float half bfloat16 double type type_as contiguous cpu cuda npu".split())


# These hand on elements in the order in which they are given; those that pick leave some out.
PICKING = frozenset("getitem select narrow chunk split unbind diagonal".split())
MASKING = frozenset("where masked_fill triu tril".split())
SHAPING = frozenset(
    "view reshape flatten unflatten squeeze unsqueeze view_as reshape_as contiguous clone detach "
    "identity".split()
)

# These put the same numbers at other places, so that no statistic changes.
TRANSPOSING = frozenset("transpose t permute movedim swapaxes".split())
MOVING = SHAPING | TRANSPOSING | frozenset("flip fliplr flipud roll rot90 sort".split())

ATTENTION = frozenset(
    "multi_head_attention_forward scaled_dot_product_attention npu_fusion_attention".split()
)
# These tell which rows, or which places, stand beside one another.
NEIGHBOURLY = ATTENTION | frozenset(
    f"conv{transposed}{rank}d" for transposed in ("", "_transpose") for rank in (1, 2, 3)
)

LINEAR = frozenset({"linear", "Linear"})  # a module is called so where modules alone are known

# A little more or less of what they are given is one more or less of what they put out, or all.
ROUNDING = frozenset("ceil floor round trunc fix floor_divide floordiv".split())
# Vectors of which the opposite is as right, and of equal values any others of their plane.
OF_ANY_SIGN = frozenset("eigh eig symeig svd qr".split())
FACTORS = frozenset({"qr"})  # all that they put out
MAY_CHOOSE = CASTS | MASKING | OF_ANY_SIGN  # without whole numbers to show it
JUMPING = frozenset("sign sgn heaviside remainder fmod mod frac".split())

_FEW = 4  # samples of a channel


def over_few_samples(part: Part, texts: Texts) -> NDArray[np.bool_]:
    """Batch normalisations of a handful of samples of each channel, forward and back.

    Of two samples nothing is left but their signs, and of a gradient nothing but rounding.
    """
    calls, table = part.calls, part.table
    names = ("batch_norm", "native_batch_norm", "batchnorm", "batchnorm1d", "batchnorm2d")
    named = calls.of_stems(lambda stem: operator_of(stem).lower() in names) == 1
    first = table.is_tensor & (table.section == Section.INPUT) & (table.position == 0)
    rows = np.flatnonzero(first & named[table.node])
    channels = {
        shape: _channels(texts.values[shape]) for shape in np.unique(table.shape_id[rows]).tolist()
    }
    result = np.zeros(len(part.tree), dtype=bool)
    for row in rows.tolist():
        result[table.node[row]] |= table.numel[row] <= _FEW * channels[int(table.shape_id[row])]
    twin = calls.twin
    return np.asarray(result | ((twin >= 0) & result[twin]))


def _channels(shape: str) -> int:
    sizes = shape.strip("[]()").split(",")
    return int(sizes[1]) if len(sizes) > 1 and sizes[1].strip().isdigit() else 0


def idle_casts(part: Part, is_whole: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Casts to the type that the tensor has, and of whole numbers, by type: they change nothing."""
    table, size = part.table, len(part.tree)
    given, put_out = np.full(size, -1, dtype=np.int64), np.full(size, -2, dtype=np.int64)
    first = table.is_tensor & (table.position == 0)
    for section, of_node in ((Section.INPUT, given), (Section.OUTPUT, put_out)):
        rows = np.flatnonzero(first & (table.section == section))
        of_node[table.node[rows]] = table.dtype_id[rows]
    return np.asarray(part.calls.are(CASTS) & ((given == put_out) | is_whole[given]))


# What is common to all elements is taken out, and out of the gradient as well.
NORMALISING = frozenset(
    "layer_norm batch_norm group_norm instance_norm rms_norm normalize native_layer_norm "
    "native_batch_norm softmax log_softmax batchnorm layernorm groupnorm".split()
)


def has_other_precision(npu: Part, bench: ParameterTable, comparisons: Comparisons) -> bool:
    """Whether it is the habit of two runs that types differ."""
    calls = npu.calls
    products = calls.is_forward_call & (families(calls) == Family.PRODUCT)
    rows = products[npu.table.node] & (npu.table.section == Section.OUTPUT)
    weights = npu.table.section == Section.PARAMETERS
    return is_other_precision(npu.table, bench, comparisons, (np.asarray(rows), weights))


def normalising(calls: Calls) -> NDArray[np.bool_]:
    """Calls that take out what is common to their elements; modules where nothing else is known."""
    if calls.is_api.any():
        return calls.are(NORMALISING)
    named = calls.of_stems(lambda stem: _is_norm(operator_of(stem).lower())) == 1
    return np.asarray(named & calls.is_module)
