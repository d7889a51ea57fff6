"""Which operators may be called because a file from outside names them.

Torch registers whatever was ever needed: operators that map files, change the size of memory, look
at memory by raw offsets or take pointers for packed weights. So a name from a dump or a saved call
is called only if it is on the list: operators of ATen that the table of operators knows, or whose
forward it knows, and those of torch_npu in the table.
"""

from __future__ import annotations

import re
from functools import cache

from torch._ops import OpOverload

from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.table import is_row, operator_of

# Arguments of type str that choose among ways to compute.
_CHOICES = frozenset(
    "approximate driver equation indexing interpolation mode norm ord p pad_mode padding"
    " padding_side reduce rounding_mode side UPLO".split()
)
# What goes around the name of an operator that the table knows: of its backward, of the same for a
# list of tensors, of its parts.
_AROUND = re.compile(
    r"\A(_+|foreach_|fused_|unsafe_|special_|linalg_)"
    r"|(_+|_(double_)?backward(_data|_input|_weights?)?|_(dense|sparse|per_sample_weights)_backward"
    r"|_forward(_only)?|_copy|_jvp|_ex|_functional|_legit|_kernel|_interface|_for_cpu|_fallback|_aa"
    r"|_differentiable|_helper|_with_info|_with_indices)\Z"
)
# Arithmetic that the table has no row for.
_ARITHMETIC = frozenset(
    "_addmm_activation _amp_foreach_non_finite_check_and_unscale _amp_update_scale _cast_Byte"
    " _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short _chunk_cat"
    " _conv_depthwise2d _convolution_mode _cummax_helper _cummin_helper _dirichlet_grad"
    " _efficient_attention_backward _euclidean_dist _fft_c2c _fft_c2r _fft_r2c _foreach_powsum"
    " _fused_adagrad _fused_adam _fused_adamw _fused_sgd _linalg_eigvals _masked_scale"
    " _pad_circular _pad_enum _slow_conv2d_backward _slow_conv2d_forward _standard_gamma_grad"
    " _thnn_fused_gru_cell _thnn_fused_gru_cell_backward _thnn_fused_lstm_cell"
    " _thnn_fused_lstm_cell_backward _thnn_fused_lstm_cell_backward_impl"
    " _transform_bias_rescale_qkv _trilinear _unsafe_masked_index"
    " _unsafe_masked_index_put_accumulate _upsample_nearest_exact1d"
    " _upsample_nearest_exact1d_backward _upsample_nearest_exact2d"
    " _upsample_nearest_exact2d_backward _upsample_nearest_exact3d"
    " _upsample_nearest_exact3d_backward affine_grid_generator affine_grid_generator_backward"
    " argwhere bartlett_window batch_norm_backward_elemt batch_norm_backward_reduce"
    " batch_norm_elemt batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_stats"
    " blackman_window broadcast_tensors cartesian_prod col2im complex conv_depthwise3d corrcoef"
    " cummaxmin_backward embedding_renorm fake_quantize_per_channel_affine"
    " fake_quantize_per_channel_affine_cachemask fake_quantize_per_tensor_affine"
    " fake_quantize_per_tensor_affine_cachemask flatten_dense_tensors hamming_window hann_window"
    " infinitely_differentiable_gelu_backward is_nonzero isreal kaiser_window"
    " linalg_householder_product lshift matrix_exp matrix_exp_backward matrix_power"
    " native_channel_shuffle orgqr polar rshift unflatten_dense_tensors"
    " value_selecting_reduction_backward".split()
)
# Of one library, whose operators take for packed weights or states what a tensor's bytes say.
_OF_A_LIBRARY = re.compile(r"_?(fbgemm|lstm_mps|miopen|mkldnn|mps|quantized|sparse|triton)_")


@cache
def why_not_called(operator: OpOverload) -> Fact | None:
    """Why a file may not have this operator called, None when it may."""
    schema = operator._schema
    namespace, name = schema.name.split("::")
    refused = fact("operator.not_allowed", name=f"{namespace}.{name}")
    if namespace == "npu":
        return None if operator_of(f"NPU.{name}").kind is not Kind.OTHER else refused
    if namespace != "aten" or not is_known(name):
        return refused
    texts = [argument.name for argument in schema.arguments if "str" in str(argument.type)]
    return None if _CHOICES.issuperset(texts) else refused


def reaches(name: str) -> bool:
    """Whether a function of this name reaches beyond its operands, whatever else it is."""
    row = operator_of(f"Aten.{name}")
    return "reaches" in row.traits or _OF_A_LIBRARY.match(name) is not None


def is_known(name: str) -> bool:
    """Whether the table knows an operator of ATen or, of a backward or a part, the whole."""
    if name.removesuffix("_") in _ARITHMETIC or name.strip("_") in _ARITHMETIC:
        return True
    while name:
        if reaches(name):
            return False
        if is_row(name) or operator_of(f"Aten.{name}").kind is not Kind.OTHER:
            return True
        shorter = _AROUND.sub("", name, count=1)
        if shorter == name:
            return False
        name = shorter
    return False
