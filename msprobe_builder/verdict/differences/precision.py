"""Whether two runs compute in other types."""

from __future__ import annotations

import numpy as np

from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import Part
from msprobe_builder.metrics.comparison import Comparisons
from msprobe_builder.operators.operator import Operator

_MOST, _SEVERAL = 0.5, 4
_HABIT = 0.2


def has_other_precision(npu: Part, bench: ParameterTable, comparisons: Comparisons) -> bool:
    """Whether it is the habit of two runs that types differ.

    Most products are enough, which mixed precision casts and little else, or most weights, as much
    of a model in half precision may be computed in single.
    """
    calls, table, pairs = npu.calls, npu.table, comparisons.pairs
    if not len(pairs):
        return False
    told = calls.is_api if calls.is_api.any() else calls.is_module
    products = told & calls.are(_is_product) & calls.is_forward_call
    differs = table.dtype_id[pairs.npu] != bench.dtype_id[pairs.bench]
    telling = (
        products[table.node] & (table.section == Section.OUTPUT),
        table.section == Section.PARAMETERS,
    )
    kinds = [differs[np.asarray(one)[pairs.npu]] for one in telling]
    most = any(len(one) >= _SEVERAL and float(one.mean()) >= _MOST for one in kinds)
    return most or float(differs.mean()) > _HABIT


def _is_product(operator: Operator) -> bool:
    return "products" in operator.condition
