"""How often Python looks for garbage while calls are recorded."""

from __future__ import annotations

import gc

# Objects that are kept of a call, beside those that a training itself keeps of one.
_RARER = 50
_RARER_WITH_FLOW = 80


class RareGarbage:
    """Has Python look for garbage about as often as without recording.

    Of each call some eighteen objects are kept until the step is over, with the flow of data
    thirty, where a training keeps a third of one. Python looks for garbage whenever so many were
    made, through all of them, and now and then through all objects of the program.
    """

    def __init__(self, with_flow: bool = False) -> None:
        self._rarer = _RARER_WITH_FLOW if with_flow else _RARER
        self._before: tuple[int, int, int] | None = None

    def begin(self) -> None:
        """From here on, unless the program decides itself when to look."""
        before = gc.get_threshold()
        if self._before is None and before[0] and gc.isenabled():
            self._before = before
            gc.set_threshold(before[0] * self._rarer, *before[1:])

    def end(self) -> None:
        """As before, unless the program has decided otherwise since."""
        before, self._before = self._before, None
        if before is not None and gc.get_threshold() == (before[0] * self._rarer, *before[1:]):
            gc.set_threshold(*before)
