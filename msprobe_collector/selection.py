"""Which calls are recorded: ``list`` and ``scope``."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from msprobe_collector.calls import Call

_log = logging.getLogger("msprobe_collector")


class Selection:
    """Both filters must agree; a kept module keeps everything inside it."""

    def __init__(self, names: Sequence[str], scope: Sequence[str]) -> None:
        self._names = names
        self._scope = scope
        self._in_scope = not scope
        self._hits: set[str] = set()

    @property
    def keeps_all(self) -> bool:
        return not self._names and not self._scope

    def keep(self, call: Call) -> bool:
        """Decide on a call when it begins."""
        if self.keeps_all:
            return True
        self._enter_scope(call.forward_name)
        listed = self._listed(call)
        return listed and self._in_scope

    def leave(self, call_name: str) -> None:
        """The call that ends the scope is over."""
        if self._scope and call_name == self._scope[1]:
            self._in_scope = False

    def keep_backward(self, call: Call) -> bool:
        if self.keeps_all:
            return True
        self._enter_scope(call.backward_name)
        if self._scope:
            return self._in_scope and self._listed(call)
        return self._listed(call)

    def _enter_scope(self, name: str) -> None:
        if self._scope and name == self._scope[0]:
            self._in_scope = True
            self._hits.add(name)

    def _listed(self, call: Call) -> bool:
        if not self._names:
            return True
        if call.parent is not None and call.parent.kept:
            return True
        for text in self._names:
            if matches(text, call.forward_name) or matches(text, call.backward_name):
                self._hits.add(text)
                return True
        return False

    def warn_of_misses(self) -> None:
        """Name the filters that matched no call at all."""
        for text in self._names:
            if text not in self._hits:
                _log.warning("No call matched %r of list; names look like %s.", text, _EXAMPLE)
        if self._scope and self._scope[0] not in self._hits:
            _log.warning("The scope never began: no call was named %r.", self._scope[0])


_EXAMPLE = "Functional.linear.0.forward or Module.fc.Linear.forward.0"


def matches(text: str, name: str) -> bool:
    """A part of the name; the category before the first dot in any case of letters."""
    return text in name or text.lower() == name.partition(".")[0].lower()
