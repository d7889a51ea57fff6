"""Which calls are recorded: ``list`` and ``scope``."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.table import operator_of
from msprobe_collector.record.calls import Call

_CORE = {Kind.PRODUCT, Kind.LOOKUP, Kind.UPDATE, Kind.COLLECTIVE}
_LOW = {
    *(Kind.CAST, Kind.QUERY, Kind.MAKE, Kind.EMPTY, Kind.SHAPE, Kind.TRANSPOSE, Kind.JOIN),
    *(Kind.SLICE, Kind.REPEAT),
}
_log = logging.getLogger("msprobe_collector")


class Selection:
    """Both filters must agree; a kept module keeps everything inside it.

    Where there is none, ``risk`` chooses calls by their weight: only those that compute most
    (CORE), all but those that merely make, move or join elements (FOCUS), or all.
    """

    def __init__(self, names: Sequence[str], scope: Sequence[str], risk: str = "ALL") -> None:
        self._risk = "ALL" if names or scope else risk
        self._names = names
        self._scope = scope
        self._in_scope = not scope
        self._is_over = False  # a name is given once in a step, so no call can begin it again
        self._hits: set[str] = set()
        self._missed: set[str] = set()  # and it was said

    @property
    def keeps_all(self) -> bool:
        return not self._names and not self._scope and self._risk == "ALL"

    def keep(self, call: Call) -> bool:
        """Decide on a call when it begins."""
        if self.keeps_all:
            return True
        self._enter_scope(call.forward_name, call)
        listed = self.lists(call)
        return listed and self._in_scope

    def leave(self, call_name: str) -> None:
        """The call that ends the scope is over."""
        if self._scope and call_name == self._scope[1]:
            self._in_scope = False
            self._is_over = True

    def keep_backward(self, call: Call) -> bool:
        if self.keeps_all:
            return True
        self._enter_scope(call.backward_name, call)
        listed = self._asks_for(call, call.backward_name)
        return listed and (self._in_scope or not self._scope)

    def lists_backward(self, call: Call) -> bool:
        """Whether a filter asks for the backward call, whenever it comes."""
        return self._asks_for(call, call.backward_name) or call.backward_name in self._scope

    def may_keep_backward(self, call: Call) -> bool:
        """Whether a gradient of ``call`` that comes now may be of interest.

        A scope may still begin inside of the call, which is then recorded when it is over.
        """
        return not self._is_over and self._asks_for(call, call.backward_name)

    def end_step(self) -> None:
        """Names are given anew, thus the scope may begin again."""
        self._is_over = False

    def _enter_scope(self, name: str, call: Call) -> None:
        if self._scope and name == self._scope[0]:
            self._in_scope = True
            self._hits.add(name)
            around = call.parent
            while around is not None:  # the modules around it are recorded when they return
                around.encloses = True
                around = around.parent

    def lists(self, call: Call) -> bool:
        """Whether ``list`` asks for the forward call, wherever the scope is."""
        return self._asks_for(call, call.forward_name)

    def _asks_for(self, call: Call, name: str) -> bool:
        if not self._names:
            return self._risk == "ALL" or bool(call.path) or self._weighs(call)
        found = call.parent is not None and call.parent.keeps_inside
        call.keeps_inside = call.keeps_inside or found
        for text in self._names:
            if is_full_name(text):
                if text == name:  # this call alone
                    self._hits.add(text)
                    found = True
            elif matches(text, call.forward_name) or matches(text, call.backward_name):
                self._hits.add(text)
                call.keeps_inside = found = True
        return found

    def _weighs(self, call: Call) -> bool:
        operator = operator_of(call.forward_name.rsplit(".", 2)[0])
        if self._risk == "CORE":
            return operator.kind in _CORE or "sums" in operator.traits  # layers that normalise
        return operator.kind not in _LOW

    def warn_of_misses(self) -> None:
        """Name the filters that matched no call at all, each once."""
        for text in (*self._names, *self._scope[:1]):
            if text in self._hits or text in self._missed:
                continue
            self._missed.add(text)
            if text in self._names:
                _log.warning("No call matched %r of list; names look like %s.", text, _EXAMPLE)
            else:
                _log.warning("The scope never began: no call was named %r.", text)


_EXAMPLE = "Functional.linear.0.forward or Module.fc.Linear.forward.0"


def matches(text: str, name: str) -> bool:
    """A part of the name; the category before the first dot in any case of letters."""
    return text in name or text.lower() == name.partition(".")[0].lower()


_FULL_NAME = re.compile(r"\w+\.\S+\.(\d+\.(forward|backward)|(forward|backward)\.\d+)")


def is_full_name(text: str) -> bool:
    """Whether ``text`` names a single call instead of a kind of calls."""
    return _FULL_NAME.fullmatch(text) is not None
