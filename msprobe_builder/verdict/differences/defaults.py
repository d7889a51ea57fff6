"""What functions of torch take for arguments that a call does not give.

One program writes ``gelu(x, approximate="tanh")`` and the other one ``gelu(x)``: only one of the
dumps has the argument, and yet it differs. Listed are arguments with a constant default that moves
numbers without changing a shape. Flags that have two spellings (``unbiased``, ``correction``) and
those whose default depends on what is given (the scale of an attention) are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Default(NamedTuple):
    """``place`` among positional arguments, the tensor of a method counted; -1 by keyword alone."""

    place: int
    value: str


_ADDED = {"alpha": Default(-1, "1")}
_PRODUCT = {"beta": Default(-1, "1"), "alpha": Default(-1, "1")}
_QUOTIENT = {"value": Default(-1, "1")}
_REDUCED = {"reduction": Default(4, "mean")}
_EPSILON = {"eps": Default(4, "1e-05")}
_POOL = {"ceil_mode": Default(4, "False"), "count_include_pad": Default(5, "True")}
_SHRUNK = {"lambd": Default(1, "0.5")}
_WEIGHED = {"weight": Default(2, "None")}  # a tensor
_BOUNDS = {"min": Default(1, "None"), "max": Default(2, "None")}

# https://docs.pytorch.org/docs/stable/nn.functional.html and https://docs.pytorch.org/docs/stable/torch.html
DEFAULTS: Mapping[str, Mapping[str, Default]] = {
    "add": _ADDED,
    "sub": _ADDED,
    "addmm": _PRODUCT,
    "baddbmm": _PRODUCT,
    "addbmm": _PRODUCT,
    "addmv": _PRODUCT,
    "addr": _PRODUCT,
    "addcmul": _QUOTIENT,
    "addcdiv": _QUOTIENT,
    "div": {"rounding_mode": Default(-1, "None")},
    "clamp": _BOUNDS,
    "clip": _BOUNDS,
    "tril": {"diagonal": Default(1, "0")},
    "triu": {"diagonal": Default(1, "0")},
    "sort": {"descending": Default(2, "False")},
    "argsort": {"descending": Default(2, "False")},
    "topk": {"largest": Default(3, "True")},
    "cdist": {"p": Default(2, "2.0")},
    "gelu": {"approximate": Default(-1, "none")},
    "leaky_relu": {"negative_slope": Default(1, "0.01")},
    "elu": {"alpha": Default(1, "1.0")},
    "celu": {"alpha": Default(1, "1.0")},
    "softplus": {"beta": Default(1, "1"), "threshold": Default(2, "20")},
    "hardtanh": {"min_val": Default(1, "-1.0"), "max_val": Default(2, "1.0")},
    "softshrink": _SHRUNK,
    "hardshrink": _SHRUNK,
    "glu": {"dim": Default(1, "-1")},
    "layer_norm": _EPSILON,
    "group_norm": _EPSILON,
    "rms_norm": {"eps": Default(3, "None")},
    "batch_norm": {
        "training": Default(5, "False"),
        "momentum": Default(6, "0.1"),
        "eps": Default(7, "1e-05"),
    },
    "instance_norm": {
        "use_input_stats": Default(5, "True"),
        "momentum": Default(6, "0.1"),
        "eps": Default(7, "1e-05"),
    },
    "local_response_norm": {
        "alpha": Default(2, "0.0001"),
        "beta": Default(3, "0.75"),
        "k": Default(4, "1.0"),
    },
    "normalize": {
        "p": Default(1, "2.0"),
        "dim": Default(2, "1"),
        "eps": Default(3, "1e-12"),
    },
    "cosine_similarity": {"dim": Default(2, "1"), "eps": Default(3, "1e-08")},
    "pairwise_distance": {"p": Default(2, "2.0"), "eps": Default(3, "1e-06")},
    "embedding": {"max_norm": Default(3, "None")},
    "interpolate": {
        "mode": Default(3, "nearest"),
        "align_corners": Default(4, "False"),
        "antialias": Default(6, "False"),
    },
    "grid_sample": {
        "mode": Default(2, "bilinear"),
        "padding_mode": Default(3, "zeros"),
        "align_corners": Default(4, "False"),
    },
    "pad": {"mode": Default(2, "constant")},
    "avg_pool1d": _POOL,
    "avg_pool2d": _POOL,
    "avg_pool3d": _POOL,
    "cross_entropy": {
        **_WEIGHED,
        "ignore_index": Default(4, "-100"),
        "reduction": Default(6, "mean"),
        "label_smoothing": Default(7, "0.0"),
    },
    "nll_loss": {
        **_WEIGHED,
        "ignore_index": Default(4, "-100"),
        "reduction": Default(6, "mean"),
    },
    "mse_loss": _REDUCED,
    "l1_loss": _REDUCED,
    "smooth_l1_loss": {**_REDUCED, "beta": Default(5, "1.0")},
    "huber_loss": {"reduction": Default(2, "mean"), "delta": Default(3, "1.0")},
    "kl_div": {**_REDUCED, "log_target": Default(5, "False")},
    "binary_cross_entropy": {**_WEIGHED, "reduction": Default(5, "mean")},
    "binary_cross_entropy_with_logits": {
        **_WEIGHED,
        "reduction": Default(5, "mean"),
        "pos_weight": Default(6, "None"),
    },
    "triplet_margin_loss": {
        "margin": Default(3, "1.0"),
        "p": Default(4, "2"),
        "swap": Default(6, "False"),
    },
}
