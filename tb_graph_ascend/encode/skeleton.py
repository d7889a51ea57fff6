"""A skeleton to its message: whole columns in protobuf's own packed form.

Protobuf's setters take one Python number after the other, four times as long as numpy does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.database.read.node_columns import Ints
from msprobe_builder.database.read.skeleton import Skeleton
from tb_graph_ascend.generated import graph_pb2 as pb

_LENGTH_DELIMITED = 2  # wire type of a packed column


def encode_skeleton(revision: str, skeleton: Skeleton) -> pb.Skeleton:
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
    message.MergeFromString(b"".join(_field(name, column) for name, column in columns.items()))
    return message


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
    groups: list[NDArray[np.uint8]] = []
    rest = values
    while rest.any() or not groups:
        groups.append((rest & 0x7F).astype(np.uint8))
        rest = rest >> 7
    table = np.stack(groups, axis=1)
    is_used = np.ones(table.shape, np.bool_)
    for place in range(table.shape[1] - 1, 0, -1):
        is_used[:, place] = table[:, place:].any(axis=1)
        table[is_used[:, place], place - 1] |= 0x80
    return table[is_used].tobytes()
