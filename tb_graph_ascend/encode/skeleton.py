"""A skeleton to its message: whole columns in protobuf's own packed form.

Protobuf's setters take one Python number after the other, four times as long as numpy does; to read
and write them once more takes as long again.
"""

from __future__ import annotations

import numpy as np

from msprobe_builder.database.read.node_columns import Ints
from msprobe_builder.database.read.skeleton import Skeleton
from tb_graph_ascend.encode.encoded import Encoded
from tb_graph_ascend.generated import graph_pb2 as pb

_LENGTH_DELIMITED = 2  # wire type of a packed column


def encode_skeleton(revision: str, skeleton: Skeleton) -> Encoded:
    """All columns of one side."""
    columns = {
        "stem": _varints(skeleton.stem),
        "direction": _varints(skeleton.direction),
        "call": _varints(skeleton.call),
        "kind": _varints(skeleton.kind),
        "subtree_size": _varints(skeleton.subtree_size),
        "micro_step": _varints(skeleton.micro_step),
        "grade": _varints(skeleton.grade),
        "partner_offset": _varints(_zigzag(skeleton.partner_offset)),
        "error": skeleton.error.astype("<f4").tobytes(),
        "overflow": _varints(skeleton.overflow),
        "unmatched_reason": _varints(skeleton.unmatched_reason),
        "role": _varints(skeleton.role),
        "match_source": _varints(skeleton.match_source),
        "match_certainty": _varints(skeleton.match_certainty),
        "group": _varints(skeleton.group),
    }
    message = pb.Skeleton(
        revision=revision,
        node_count=len(skeleton),
        stems=skeleton.stems,
        unmatched_reasons=skeleton.unmatched_reasons,
    )
    fields = (_field(name, column) for name, column in columns.items())
    return Encoded(pb.Skeleton, b"".join((message.SerializeToString(), *fields)))


def _field(name: str, column: bytes) -> bytes:
    if not column:
        return b""
    tag = pb.Skeleton.DESCRIPTOR.fields_by_name[name].number << 3 | _LENGTH_DELIMITED
    return _varints(np.array([tag, len(column)])) + column


def _zigzag(values: Ints) -> Ints:
    """Small numbers of either sign to small ones that are not negative."""
    wide = values.astype(np.int64)
    return np.asarray(wide << 1 ^ wide >> 63)


def _varints(values: Ints) -> bytes:
    """Seven bits of a number to a byte, the lowest first; all bytes but the last have bit 7 set."""
    if not values.size or int(values.max()) < 0x80:  # most columns
        return values.astype(np.uint8).tobytes()
    groups = -(-int(values.max()).bit_length() // 7)
    # As narrow as they fit: it is the memory that takes the time.
    rest = values.astype(np.min_scalar_type(int(values.max())))
    table = np.empty((len(values), groups), np.uint8)
    is_used = np.empty(table.shape, np.bool_)
    for place in range(groups):
        np.not_equal(rest, 0, out=is_used[:, place])
        np.bitwise_and(rest, 0x7F, out=table[:, place], casting="unsafe")
        rest >>= 7
        if place > 0:
            table[:, place - 1] |= is_used[:, place].view(np.uint8) << 7
    is_used[:, 0] = True
    return table[is_used].tobytes()
