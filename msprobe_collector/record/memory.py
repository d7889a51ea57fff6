"""One memory: who wrote which part of it, and who made the tensors that lie in it."""

from __future__ import annotations

from msprobe_builder.dump.flow_layout import Maker, Mark, Place
from msprobe_collector.record.layouts import Layout, bytes_of, covers, is_dense, overlap
from msprobe_collector.record.origins import OUTSIDE, UNKNOWN, Found, Origin

_MOST_WRITES = 256  # to parts of one memory
NO_TENSORS: dict[Layout, Found] = {}
NO_WRITES: list[tuple[Layout | None, Origin]] = []
# Plain numbers, as flags take long to combine.
_VIEW, _IN_PLACE = int(Mark.VIEW), int(Mark.IN_PLACE)
_UNINITIALISED, _INCOMPLETE = int(Mark.UNINITIALISED), int(Mark.INCOMPLETE)
_UNWRITTEN = _UNINITIALISED | int(Mark.FROM_UNINITIALISED)
_RECORD, _OUTPUT = int(Maker.RECORD), int(Place.OUTPUT)


class Memory:
    """One storage: the tensors in it, and who wrote which part of it, the latest last."""

    # There are many: what most do not need is made when it is.
    __slots__ = (
        "changes", "first", "found", "origin", "others", "tensors", "unwritten", "version", "writes"
    )  # fmt: skip

    def __init__(self, version: int, origin: Origin | None = None) -> None:
        """``origin`` wrote all of it."""
        self.version = version
        self.changes = 0  # how often it was written to
        self.others: tuple[int, ...] = ()  # counters of aliases such as those by ``data``
        self.first: Layout | None = None  # the first tensor in it, and who made that
        self.found = UNKNOWN
        self.tensors = NO_TENSORS  # others
        self.origin = origin  # wrote all of it, before ``writes``
        self.writes = NO_WRITES  # the places are None where it is all of the memory
        self.unwritten = 0  # bytes that nobody has written, of what was given out empty

    def is_at(self, version: int) -> bool:
        """Whether nobody wrote to it unseen, as a tensor with this counter tells."""
        if version == self.version or version in self.others:
            return True
        if version < self.version:
            self.others += (version,)  # another counter, as counters do not go back
            return True
        return False

    def find(self, layout: Layout) -> Found:
        """Who made a tensor that lies there."""
        known = self.known(layout)
        if known is None:
            known = self._search(layout)
            self.know(layout, known)
        return known

    def known(self, layout: Layout) -> Found | None:
        """As ``find``, if it was found before."""
        return self.found if layout == self.first else self.tensors.get(layout)

    def know(self, layout: Layout, found: Found) -> None:
        """Who made a tensor that lies there."""
        if self.first is None or self.first == layout:
            self.first, self.found = layout, found
        elif self.tensors:
            self.tensors[layout] = found
        else:
            self.tensors = {layout: found}

    def _search(self, layout: Layout) -> Found:
        found: list[Origin] = []
        marks = 0
        for place, origin in reversed(self.writes):
            if place is not None and not overlap(place, layout):
                continue
            found.append(origin)
            marks |= origin.marks & _UNWRITTEN
            if place is None or covers(place, layout):
                break
        else:
            if self.origin is None:
                marks |= _INCOMPLETE
            else:
                found.append(self.origin)
                marks |= self.origin.marks & _UNWRITTEN
        if not found:
            return Found(OUTSIDE, _INCOMPLETE)
        if len(found) > 1 and self.unwritten <= 0 and found[-1].marks & _UNINITIALISED:
            found.pop()  # others wrote all of it since
            marks &= ~_UNINITIALISED
        marks |= found[0].marks & _IN_PLACE
        return Found(found[0], marks | _VIEW, tuple(dict.fromkeys(found[1:])))

    def begin(self, layout: Layout, origin: Origin) -> None:
        """As ``write``, first of all, of a memory of which nobody is known to have written it."""
        self.writes = [(layout, origin)]
        self.first, self.found = layout, Found(origin, origin.marks & (_UNWRITTEN | _IN_PLACE))

    def write(self, layout: Layout | None, origin: Origin, version: int, size: int) -> None:
        """Somebody wrote there, all of it where nothing is said.

        What one record put out before stays that: its results may lie in each other.
        """
        self.version = version
        self.changes += 1
        tensors = self.tensors
        if self.first is not None:
            tensors = {self.first: self.found, **tensors}
        self.first, self.tensors = None, NO_TENSORS
        if layout is None or (is_dense(layout) and bytes_of(layout) >= size):
            if tensors:
                tensors = {p: one for p, one in tensors.items() if _is_result_of(one, origin)}
            self.origin, self.unwritten = None, 0
            self.writes = [(layout, origin)]
        else:
            tensors = {
                place: one
                for place, one in tensors.items()
                if _is_result_of(one, origin) or not overlap(place, layout)
            }
            if self.unwritten and not any(
                place is not None and overlap(place, layout) for place, _ in self.writes
            ):
                self.unwritten -= bytes_of(layout)
            self.writes = [one for one in self.writes if one[0] != layout]
            if len(self.writes) >= _MOST_WRITES:
                self.writes = self.writes[-_MOST_WRITES // 2 :]
                self.origin = None
            self.writes.append((layout, origin))
        for place, one in tensors.items():
            self.know(place, one)
        if layout is not None:
            self.know(layout, Found(origin, origin.marks & (_UNWRITTEN | _IN_PLACE)))


def _is_result_of(found: Found, origin: Origin) -> bool:
    """Whether the record of ``origin`` has put out a tensor."""
    first = found.first
    return isinstance(first, Origin) and first[:3] == origin[:3] == (_RECORD, origin.name, _OUTPUT)
