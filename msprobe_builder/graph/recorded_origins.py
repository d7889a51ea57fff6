"""Where tensors came from as the collector recorded it, by row of a parameter table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Section
from msprobe_builder.dump.flow_file import RecordedFlow
from msprobe_builder.dump.flow_layout import NONE, Maker, Mark, Place
from msprobe_builder.graph.parameter_table import Origins, ParameterTable
from msprobe_builder.graph.recorded_places import places_in, shown
from msprobe_builder.graph.tree import Tree

Int = NDArray[np.int64]

_PARTS = Mark.VIEW | Mark.INCOMPLETE
_MAKER = ("kind", "maker", "maker_section", "maker_position")
_FURTHER = ("kind", "maker", "section", "position")  # the same of further ones
_NAMED = (Maker.PARAMETER, Maker.BUFFER, Maker.GRADIENT)


def recorded_origins(
    tree: Tree, table: ParameterTable, flow: RecordedFlow, *, by_argument: bool
) -> Origins:
    """The makers of the rows of a table.

    ``by_argument`` says that the table shows gradients by argument where the dump has them.
    """
    size = len(table)
    place = places_in(tree, table)
    rows = shown(flow.rows, by_argument=by_argument)
    here = place.of(rows["record"], rows["section"], rows["position"])
    rows, here = rows[here >= 0], here[here >= 0]
    maker = np.full(len(rows), -1, dtype=np.int64)
    by_record = rows["kind"] == Maker.RECORD
    sections = _sections(rows["maker_section"], by_argument=by_argument)
    maker[by_record] = place.of(rows["maker"], sections, rows["maker_position"])[by_record]
    is_one = (rows["count"] == 0) & (rows["marks"] & int(_PARTS) == 0)
    is_sum = (rows["marks"] & Mark.SUM > 0) & (rows["marks"] & Mark.INCOMPLETE == 0)
    has_token = (is_one & (by_record | _is_named(rows))) | is_sum
    same = np.full(size, -1, dtype=np.int64)
    outputs = np.flatnonzero(table.is_tensor & (table.section == Section.OUTPUT))
    same[outputs] = outputs
    same[here] = -1
    by_row = has_token & is_one & (maker >= 0)
    same[here[by_row]] = maker[by_row]
    rest = has_token & ~by_row
    same[here[rest]] = size + _numbers(rows[rest], flow)
    is_own = by_record & (maker == here)  # such as a view that the call took
    same[here[is_own]] = here[is_own]
    row_of_maker = np.full(size, -1, dtype=np.int64)
    is_certain = rows["marks"] & Mark.INCOMPLETE == 0
    told = is_certain & ~is_sum
    row_of_maker[here[told]] = maker[told]
    settled = np.zeros(size, dtype=bool)
    settled[here] = is_sum | (is_certain & by_record & (maker >= 0)) | (is_one & _is_named(rows))
    hands_on = np.zeros(size, dtype=bool)
    hands_on[here] = rows["marks"] & Mark.SAME > 0
    kind = np.zeros(size, dtype=np.uint8)
    kind[here] = rows["kind"]
    name = np.full(size, -1, dtype=np.int32)
    by_name = is_one & _is_named(rows)
    name[here[by_name]] = rows["maker"][by_name]
    hands_on |= _of_inputs(table, same)
    same_row: NDArray[Any] = same.astype(np.int32)
    made_by: NDArray[Any] = row_of_maker.astype(np.int32)
    return Origins(same_row, made_by, settled, hands_on, kind, name, flow.names)


def _sections(section: NDArray[Any], *, by_argument: bool) -> Int:
    result = section.astype(np.int64)
    if by_argument:
        result[section == Place.INPUT_GRADIENTS] = Place.OUTPUT
    return result


def _is_named(rows: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(np.isin(rows["kind"], _NAMED) & (rows["maker"] != NONE))


def _numbers(rows: NDArray[Any], flow: RecordedFlow) -> Int:
    """One number for all rows with the same makers."""
    result = np.empty(len(rows), dtype=np.int64)
    is_single = rows["count"] == 0
    kind, maker, section, position = (rows[key][is_single].astype(np.int64) for key in _MAKER)
    # Two numbers hold the four, as positions have 31 bits.
    _, made = np.unique(kind << 32 | maker, return_inverse=True)
    _, singles = np.unique((made << 3 | section) << 31 | position, return_inverse=True)
    result[is_single] = singles
    known: dict[tuple[Any, ...], int] = {}
    first = int(singles.max(initial=-1)) + 1
    several = rows[~is_single]
    if not len(several):
        return result
    own = zip(*(several[key].tolist() for key in _MAKER), strict=True)
    more = list(zip(*(flow.makers[key].tolist() for key in _FURTHER), strict=True))
    begin, end = several["more"], several["more"].astype(np.int64) + several["count"]
    makers = zip(own, begin.tolist(), end.tolist(), strict=True)
    result[~is_single] = [
        first + known.setdefault(tuple(sorted((one, *more[begin:end]))), len(known))
        for one, begin, end in makers
    ]
    return result


def _of_inputs(table: ParameterTable, same: Int) -> NDArray[np.bool_]:
    """Outputs that are what their call was given."""
    both = table.node * (int(same.max(initial=0)) + 1) + same
    given, put_out = (
        np.flatnonzero((same >= 0) & (table.section == int(section)))
        for section in (Section.INPUT, Section.OUTPUT)
    )
    handed = np.sort(both[given], kind="stable")  # nearly in order already
    place = np.searchsorted(handed, both[put_out])
    result = np.zeros(len(table), dtype=bool)
    result[put_out] = np.append(handed, -1)[place] == both[put_out]
    return result
