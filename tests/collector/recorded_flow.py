"""What ``flow.bin`` says of a dump, by the names of its records."""

from __future__ import annotations

from typing import Any, NamedTuple

from msprobe_builder.dump.flow_file import flow_path, read_flow
from msprobe_builder.dump.flow_layout import NONE, Maker, Mark, Place
from tests.collector.recording import Dump, tensors

KEYS = {
    Place.INPUT: ("input_args", "input_kwargs", "input"),
    Place.OUTPUT: ("output",),
    Place.PARAMETERS: ("parameters",),
    Place.INPUT_GRADIENTS: ("input_gradients",),
    Place.OUTPUT_GRADIENTS: ("output_gradients",),
}


class At(NamedTuple):
    """A tensor of a record."""

    record: str
    section: Place
    position: int


class Made(NamedTuple):
    """Who made it: a tensor of a record, or a kind and a name."""

    kind: Maker
    name: str = ""
    at: At | None = None


class Makers(NamedTuple):
    marks: Mark
    all: list[Made]

    @property
    def first(self) -> Made:
        return self.all[0]


def items_of(dump: Dump, record: str, section: Place) -> list[dict[str, Any]]:
    """The tensors of a section of a record in their order."""
    data = dump.data[record]
    if section == Place.PARAMETERS_GRAD:
        return [item for _, item in tensors(data)]
    return [item for key in KEYS[section] for _, item in tensors(data.get(key))]


def item_at(dump: Dump, at: At) -> dict[str, Any]:
    return items_of(dump, at.record, at.section)[at.position]


def flow_of(dump: Dump) -> dict[At, Makers]:
    """All rows; each is of a tensor that dump.json shows, and so are its makers."""
    names = list(dump.data)
    flow = read_flow(flow_path(dump.directory), names)
    assert flow is not None

    def made(kind: Any, maker: Any, section: Any, position: Any) -> Made:
        if kind == Maker.RECORD:
            at = At(names[maker], Place(section), int(position))
            assert item_at(dump, at) is not None
            return Made(Maker.RECORD, at.record, at)
        return Made(Maker(int(kind)), "" if maker == NONE else flow.names[maker])

    found: dict[At, Makers] = {}
    for row in flow.rows:
        at = At(names[row["record"]], Place(int(row["section"])), int(row["position"]))
        assert at not in found
        assert item_at(dump, at) is not None
        first = made(row["kind"], row["maker"], row["maker_section"], row["maker_position"])
        more: Any = flow.makers[row["more"] :][: row["count"]] if row["count"] else []
        further = [made(one["kind"], one["maker"], one["section"], one["position"]) for one in more]
        found[at] = Makers(Mark(int(row["marks"])), [first, *further])
    return found
