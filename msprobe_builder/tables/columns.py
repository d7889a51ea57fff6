"""The columns of a table, by the task of the comparison, under their documented names."""

from __future__ import annotations

from dataclasses import dataclass

from msprobe_builder.dump.task import Task

_SHARED = (
    *("NPU Name", "Bench Name", "NPU Dtype", "Bench Dtype", "NPU Tensor Shape"),
    *("Bench Tensor Shape", "NPU Requires_grad", "Bench Requires_grad"),
)
STATISTICS = (
    *("NPU max", "NPU min", "NPU mean", "NPU l2norm"),
    *("Bench max", "Bench min", "Bench mean", "Bench l2norm"),
)
DIFFERENCES = ("Max diff", "Min diff", "Mean diff", "L2norm diff")
RELATIVE_ERRORS = ("MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr")
# The metrics that the document knows, by their names in the database.
TENSOR_ERRORS = {
    "cosine": "Cosine",
    "euclidean_distance": "EucDist",
    "max_abs_err": "MaxAbsErr",
    "max_elementwise_relative_err": "MaxRelativeErr",
    "one_thousandth_ratio": "One Thousandth Err Ratio",
    "five_thousandths_ratio": "Five Thousandths Err Ratio",
}
CONSISTENT, MESSAGE, STACK, DATA = (
    *("Requires_grad Consistent", "Err_message"),
    *("NPU_Stack_Info", "Data_name"),
)
RESULT, ACCURACY = "Result", "Accuracy Reached or Not"
# Ours, behind a switch: the verdict corrected where the documented one is wrong, and more.
MERGED = ("NPU Merged", "Bench Merged")
SKETCHED = {  # from sketches or tensors, by their names in the database
    "relative_difference": "Relative Difference",
    "factor_share": "Factor Share",
    "offset_share": "Offset Share",
}
OWN = (
    *(
        "Corrected Result",
        "Error",
        *SKETCHED.values(),
        "Grade",
        "Role",
        "Times Expected",
        "Section",
        "Order",
    ),
    *("Group", "Group Error", "Group Grade"),
    *MERGED,
)

# Of arrays that were saved under a tag; the words are those of the document.
SAVED_ERRORS = (
    *("相同元素百分比(%)", "首个不匹配元素索引", "最大绝对误差", "最大相对误差"),
    *("误差在千分之一内元素占比(%)", "误差在百分之一内元素占比(%)"),
)
SAVED_NAMES = ("step", "rank", "micro_step", "id", "shape1", "shape2", *SAVED_ERRORS)

# Columns that hold numbers wherever there is one.
NUMERIC = frozenset(
    [
        *STATISTICS,
        *DIFFERENCES,
        *RELATIVE_ERRORS,
        *TENSOR_ERRORS.values(),
        "Error",
        *SKETCHED.values(),
        "Times Expected",
        "Order",
        "Group Error",
        *SAVED_ERRORS,
        *SAVED_NAMES[:3],
    ]
)


@dataclass(frozen=True)
class Columns:
    """What is in a table; ``verdict`` is the documented column that says good or bad."""

    names: tuple[str, ...]
    verdict: str
    has_stack: bool
    has_own: bool

    def place(self, name: str) -> int:
        """Number of a column from 0."""
        return self.names.index(name)


def columns_of(task: Task, *, stack: bool = False, own: bool = False) -> Columns:
    """The columns of a table of this task, in the documented order."""
    stacks = (STACK,) if stack else ()
    more = OWN if own else ()
    if task is Task.MD5:
        names = (*_SHARED, "NPU MD5", "BENCH MD5", CONSISTENT, RESULT, *stacks, *more)
        return Columns(names, RESULT, stack, own)
    if task is Task.TENSOR:
        names = (*_SHARED, *TENSOR_ERRORS.values(), *STATISTICS, CONSISTENT, ACCURACY, MESSAGE)
        return Columns((*names, *stacks, DATA, *more), ACCURACY, stack, own)
    names = (*_SHARED, *DIFFERENCES, *RELATIVE_ERRORS, *STATISTICS, CONSISTENT, RESULT, MESSAGE)
    return Columns((*names, *stacks, *more), RESULT, stack, own)
