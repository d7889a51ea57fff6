"""Arguments with which rows of the table of operators can be run, as Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from msprobe_builder.operators.operator import Kind, Operator

# What rows are called with where their kind does not tell.
ARGUMENTS = {
    "addcmul": "x, y, z",
    "addcdiv": "x, y, p",
    "lerp": "x, y, 0.3",
    "float_power": "p, y",
    "pow": "p, 2.5",
    "rpow": "x, 2.0",
    "matmul": "x, w",
    "mm": "x, w",
    "bmm": "x3, w3",
    "mv": "x, v",
    "dot": "v, u",
    "inner": "x, y",
    "outer": "v, u",
    "tensordot": "x, w, 1",
    "kron": "x, y",
    "cross": "x[:, :3], y[:, :3]",
    "einsum": "'ij,jk->ik', x, w",
    "linear": "x, w.t(), u[:5]",
    "bilinear": "x, y, torch.ones(5, 6, 6, dtype=x.dtype), None",
    "addmm": "c, x, w",
    "addmv": "u[:4], x, v",
    "addr": "x, u[:4], v",
    "addbmm": "c, x3, w3",
    "baddbmm": "c3, x3, w3",
    "conv1d": "signal, kernel",
    "conv2d": "image, kernel[..., None].expand(4, 3, 2, 2)",
    "conv3d": "volume, torch.ones(4, 3, 2, 2, 2, dtype=x.dtype)",
    "conv_transpose1d": "signal, kernel.transpose(0, 1)",
    "conv_transpose2d": "image, torch.ones(3, 4, 2, 2, dtype=x.dtype)",
    "conv_transpose3d": "volume, torch.ones(3, 4, 2, 2, 2, dtype=x.dtype)",
    "scaled_dot_product_attention": "heads, heads, heads",
    "prelu": "x, u[:1].abs() / 9",
    "threshold": "x, 0.1, 0.0",
    "clamp": "x, -0.5, 0.5",
    "clamp_min": "x, 0.1",
    "clamp_max": "x, 0.1",
    "logit": "p",
    "polygamma": "1, p",
    "mvlgamma": "p + 3, 2",
    "igamma": "p, p.flip(0)",
    "igammac": "p, p.flip(0)",
    "xlogy": "x, p",
    "remainder": "x, 0.3",
    "fmod": "x, 0.3",
    "floor_divide": "x, 0.3",
    **dict.fromkeys(("lshift", "rshift", "rlshift", "rrshift"), "(p * 9).long(), 2"),
    "gelu": "x",
    "softmax": "x, -1",
    "log_softmax": "x, -1",
    "softmin": "x, -1",
    "layer_norm": "x, (6,)",
    "rms_norm": "x, (6,)",
    "batch_norm": "x, None, None, None, None, True",
    "group_norm": "signal, 3",
    "instance_norm": "signal",
    "local_response_norm": "signal, 2",
    "cross_entropy": "x, labels",
    "nll_loss": "x, labels",
    "binary_cross_entropy": "p, q",
    "binary_cross_entropy_with_logits": "x, q",
    "kl_div": "x, q",
    "triplet_margin_loss": "x, y, z",
    "margin_ranking_loss": "v, u, u.sign()",
    "hinge_embedding_loss": "x, y.sign()",
    "cosine_embedding_loss": "x, y, u[:4].sign()",
    "multi_margin_loss": "x, labels",
    "multilabel_margin_loss": "x, places",
    "soft_margin_loss": "x, y.sign()",
    "multilabel_soft_margin_loss": "x, q.round()",
    "gaussian_nll_loss": "x, y, p",
    "poisson_nll_loss": "x, p",
    "logsumexp": "x, -1",
    "trace": "x",
    "quantile": "x, 0.3",
    "cumsum": "x, 1",
    "cumprod": "x, 1",
    "cummax": "x, 1",
    "cummin": "x, 1",
    "logcumsumexp": "x, 1",
    "dist": "x, y",
    "renorm": "x, 2, 0, 1.0",
    "glu": "x",
    "max_pool1d": "signal, 2",
    "max_pool2d": "image, 2",
    "max_pool3d": "volume, 2",
    "adaptive_max_pool1d": "signal, 2",
    "adaptive_max_pool2d": "image, 2",
    "adaptive_max_pool3d": "volume, 2",
    "avg_pool1d": "signal, 2",
    "avg_pool2d": "image, 2",
    "avg_pool3d": "volume, 2",
    "adaptive_avg_pool1d": "signal, 2",
    "adaptive_avg_pool2d": "image, 2",
    "adaptive_avg_pool3d": "volume, 2",
    "lp_pool1d": "signal, 2.0, 2",
    "lp_pool2d": "image, 2.0, 2",
    "lp_pool3d": "volume, 2.0, 2",
    "interpolate": "image, None, 2",
    "grid_sample": "image, torch.linspace(-1, 1, 96, dtype=x.dtype).reshape(2, 6, 4, 2)",
    "pad": "x, (1, 1)",
    "fold": "torch.ones(1, 4, 9, dtype=x.dtype), (4, 4), 2",
    "unfold": "image, 2",
    "pixel_shuffle": "torch.arange(64.0).reshape(1, 4, 4, 4), 2",
    "pixel_unshuffle": "torch.arange(64.0).reshape(1, 1, 8, 8), 2",
    "channel_shuffle": "torch.arange(64.0).reshape(1, 4, 4, 4), 2",
    "view": "x, (3, 8)",
    "reshape": "x, (3, 8)",
    "view_as": "x, x.reshape(3, 8)",
    "reshape_as": "x, x.reshape(3, 8)",
    "unflatten": "x, 1, (2, 3)",
    "unsqueeze": "x, 0",
    "expand": "v, (4, 6)",
    "expand_as": "v, x",
    "repeat": "x, (2, 1)",
    "repeat_interleave": "x, 2",
    "transpose": "x, 0, 1",
    "permute": "x3, (2, 0, 1)",
    "movedim": "x3, 0, 2",
    "flip": "x, (0,)",
    "roll": "x, 2, 1",
    "to": "x, torch.float64",
    "getitem": "x, slice(1, 3)",
    "select": "x, 0, 1",
    "narrow": "x, 0, 1, 2",
    "chunk": "x, 2",
    "split": "x, 2",
    "split_with_sizes": "x, [1, 3]",
    "tensor_split": "x, 2",
    "as_strided": "x, (2, 3), (6, 1)",
    "gather": "x, 1, places",
    "index_select": "x, 0, labels",
    "take_along_dim": "x, places, 1",
    "take": "x, places",
    "masked_select": "x, x > 0",
    "embedding": "labels, w",
    "embedding_bag": "places, w",
    "where": "x > 0, x, y",
    "masked_fill": "x, x > 0, 7.0",
    "cat": "(x, y)",
    "stack": "(x, y)",
    "hstack": "(x, y)",
    "vstack": "(x, y)",
    "dstack": "(x, y)",
    "column_stack": "(x, y)",
    "block_diag": "x, y",
    "index_add": "x, 0, labels, y",
    "index_copy": "x, 0, labels, y",
    "index_fill": "x, 0, labels, 2.0",
    "index_reduce": "x, 0, labels, y, 'mean'",
    "scatter_add": "x, 1, places, y",
    "scatter": "x, 1, places, y",
    "scatter_reduce": "x, 1, places, y, 'sum'",
    "index_put": "x, (labels,), y",
    "masked_scatter": "x, x > 0, y",
    "slice_scatter": "x, y[:2], 0, 0, 2",
    "fill": "x, 2.0",
    "isclose": "x, y",
    "kthvalue": "x, 2",
    "topk": "x, 2",
    "searchsorted": "v.sort().values, x",
    "bucketize": "x, v.sort().values",
    "one_hot": "labels",
    "bincount": "labels",
    "histc": "x",
    "full": "(2, 3), 4.0",
    "full_like": "x, 4.0",
    "tensor": "[1.0, 2.0]",
    "scalar_tensor": "4.0",
    "zeros": "(2, 3)",
    "ones": "(2, 3)",
    "arange": "5",
    "linspace": "0, 1, 5",
    "eye": "3",
    "tril_indices": "3, 3",
    "native_dropout": "x, 0.5, True",
    "rand": "(3, 4)",
    "randn": "(3, 4)",
    "randint": "0, 1000, (3, 4)",
    "randint_like": "x, 0, 1000",
    "randperm": "50",
    "bernoulli": "p",
    "binomial": "p.round() + 9, p",
    "multinomial": "p, 3",
    "normal": "x, p",
    "standard_gamma": "p",
    "poisson": "p * 9",
    "geometric": "x, 0.5",
    "dropout1d": "signal",
    "dropout2d": "image",
    "dropout3d": "volume",
    "alpha_dropout": "x, 0.5, True",
    "feature_dropout": "signal.repeat(8, 8, 1), 0.5, True",
    "feature_alpha_dropout": "signal.repeat(8, 8, 1), 0.5, True",
    "fractional_max_pool2d": "torch.arange(800.0).reshape(2, 1, 20, 20), 2, (6, 6)",
    "fractional_max_pool3d": "torch.arange(2000.0).reshape(2, 1, 10, 10, 10), 2, (4, 4, 4)",
    "rrelu": "x, 0.1, 0.3, True",
    "cholesky": "square @ square.t() + torch.eye(4)",
    "solve": "square, square.t()",
    "cdist": "x, y",
    "cosine_similarity": "x, y",
    "lstm_cell": "x, (c4, c4), g4, g5",
    "gru_cell": "x, c4, g4[:15], g5[:15]",
    "rnn_tanh_cell": "x, c4, g4[:5], g5[:5]",
    "rnn_relu_cell": "x, c4, g4[:5], g5[:5]",
    "lstm": "sequence, (states, states), weights(LSTM), True, 2, 0.5, True, False, False",
    "gru": "sequence, states, weights(GRU), True, 2, 0.5, True, False, False",
    "rnn_tanh": "sequence, states, weights(RNN), True, 2, 0.5, True, False, False",
    "rnn_relu": "sequence, states, weights(RNN), True, 2, 0.5, True, False, False",
    "multi_head_attention_forward": "*(sequence,) * 3, 6, 2, torch.ones(18, 6, dtype=x.dtype),"
    " None, None, None, False, 0.5, torch.eye(6, dtype=x.dtype), None",
    "ctc_loss": "signal.repeat(1, 1, 1).log_softmax(-1), torch.ones(3, 2, dtype=torch.long),"
    " torch.tensor([2, 2, 2]), torch.tensor([1, 1, 1])",
    "weight_norm": "x, u[:4, None]",
    "nonzero": "x > 0",
    "meshgrid": "v, u",
    "size": "x",
    "item": "v[0]",
    "grouped_mm": "x3.bfloat16(), torch.ones(3, 6, 16, dtype=torch.bfloat16)",
    "int_mm": "torch.ones(32, 16, dtype=torch.int8), torch.ones(16, 16, dtype=torch.int8)",
    "convolution": "signal, kernel, None, [1], [0], [1], False, [0], 1",
    "fill_diagonal": "x, 2.0",
    "masked_softmax": "x, x > 9",
    "fused_dropout": "x, 0.5",
    "empty": "(2, 3)",
    "foreach_norm": "[x, y]",
    "foreach_addcdiv": "[x], [y], [p]",
    "det": "square",
    "logdet": "square @ square.t() + torch.eye(4)",
    "slogdet": "square",
    "inverse": "square",
    "multi_dot": "(x, w, w.t())",
    "matrix_power": "square, 3",
    "matrix_exp": "square",
    "cartesian_prod": "v, u",
    "window": "9",
    "pairwise_distance": "x, y",
}
# Rows whose function takes one tensor of that name.
_ONE = {Kind.TURN: "x", Kind.FACTOR: "square @ square.t()", Kind.DRAW: "x", Kind.COMPARE: "x"}
_TWO = "x, y"
# Functions of two tensors of one shape.
_BINARY = frozenset(
    "add sub rsub mul div rdiv maximum minimum fmax fmin copysign hypot heaviside atan2 logaddexp "
    "logaddexp2 eq equal ne lt le gt ge copy vecdot mse_loss l1_loss smooth_l1_loss huber_loss "
    "rfloordiv set resize nextafter".split()
)
_TRUTHS = frozenset({"and", "or", "xor"})
_LINALG = frozenset("eig solve".split())  # torch keeps names that it has taken away
_SPACES = (F, torch, torch.linalg, torch.special, torch._C._nn, torch._VF, torch.Tensor)


def tensors() -> dict[str, Any]:
    """The names that ARGUMENTS uses."""
    draw = torch.Generator().manual_seed(5)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    x, y, z = normal(3, 4, 6)
    return {
        "torch": torch,
        "x": x,
        "y": y,
        "z": z,
        "p": torch.rand(4, 6, generator=draw, dtype=torch.float64) * 0.8 + 0.1,
        "q": torch.rand(4, 6, generator=draw, dtype=torch.float64) * 0.8 + 0.1,
        "v": normal(6),
        "u": normal(6),
        "w": normal(6, 5),
        "c": normal(4, 5),
        "x3": normal(3, 4, 6),
        "w3": normal(3, 6, 5),
        "c3": normal(3, 4, 5),
        "c4": normal(4, 5),
        "g4": normal(20, 6)[:, :6],
        "g5": normal(20, 5),
        "signal": normal(2, 3, 8),
        "kernel": normal(4, 3, 2),
        "image": normal(2, 3, 8, 8),
        "volume": normal(2, 3, 4, 4, 4),
        "heads": normal(2, 2, 5, 8),
        "square": normal(4, 4),
        "labels": torch.tensor([0, 2, 1, 3]),
        "places": torch.stack([torch.randperm(6, generator=draw) for _ in range(4)]),
        "sequence": normal(5, 2, 6),
        "states": normal(2, 2, 6),
        "weights": lambda module: [one.detach() for one in module.parameters()],
        **modules(),
    }


@cache
def modules() -> dict[str, torch.nn.Module]:
    """Those that hold weights of rows that take several."""
    return {
        name: getattr(torch.nn, name)(6, 6, 2, dtype=torch.float64)
        for name in ("LSTM", "GRU", "RNN")
    }


def arguments_of(operator: Operator) -> list[Any]:
    """What to call a row with."""
    text = ARGUMENTS.get(operator.name)
    if text is None and operator.name in _BINARY:
        text = _TWO
    if text is None and operator.name in _TRUTHS:
        text = "x > 0, y > 0"
    if text is None and operator.name == "not":
        text = "x > 0"
    if text is None:
        text = _ONE.get(operator.kind, "p" if operator.condition & {"slope"} else "x")
    return list(eval(f"[{text}]", tensors()))  # noqa: S307 - of this file


def function_of(name: str) -> Callable[..., Any] | None:
    """The function of torch that has this name, a method of tensors last."""
    for space in (torch.linalg,) if name in _LINALG else _SPACES:
        found = getattr(space, name, None)
        if callable(found) and not isinstance(found, type):
            return found  # type: ignore[no-any-return]
    return getattr(torch.ops.aten, name, None)
