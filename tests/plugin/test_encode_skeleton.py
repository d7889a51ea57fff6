"""Columns written in protobuf's packed form are what protobuf reads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.database.read.node_columns import Ints
from msprobe_builder.database.read.skeleton import Skeleton
from tb_graph_ascend.encode.skeleton import encode_skeleton
from tb_graph_ascend.generated import graph_pb2 as pb

UNSIGNED = st.lists(st.one_of(st.integers(0, 300), st.integers(0, 2**32 - 1)), max_size=50)
SIGNED = st.lists(st.one_of(st.integers(-300, 300), st.integers(-(2**31), 2**31 - 1)), max_size=50)
ERRORS = st.lists(st.floats(width=32, allow_nan=False), max_size=50)
INTEGERS = (
    *("stem", "direction", "call", "kind", "subtree_size", "micro_step", "grade", "overflow"),
    *("unmatched_reason", "role", "match_source", "match_certainty", "group"),
)


def column(values: list[int]) -> Ints:
    return np.array(values, np.int64)


@given(st.fixed_dictionaries(dict.fromkeys(INTEGERS, UNSIGNED)), SIGNED, ERRORS)
def test_protobuf_reads_every_column_as_it_was(
    integers: dict[str, list[int]], offsets: list[int], errors: list[float]
) -> None:
    skeleton = Skeleton(
        stems=["a", "b"],
        partner_offset=column(offsets),
        error=np.array(errors, np.float64),
        unmatched_reasons=["no_such_name"],
        **{name: column(values) for name, values in integers.items()},
    )
    message = pb.Skeleton.FromString(encode_skeleton("7", skeleton).content)
    for name, values in integers.items():
        assert list(getattr(message, name)) == values
    assert list(message.partner_offset) == offsets
    assert list(message.error) == pytest.approx(errors)
    assert message.node_count == len(integers["stem"])
    assert [*message.stems, *message.unmatched_reasons] == ["a", "b", "no_such_name"]
