"""Exceptions that a signal handler of the user's raises while the collector runs.

They are meant for the training: a limit of time, a worker that died. Whoever keeps failures of the
collector from the training must let these through.
"""

from __future__ import annotations

import inspect
from types import FrameType


def pass_on_if_of_signal(error: BaseException) -> None:
    """Raise ``error`` again if a signal handler raised it."""
    if is_of_signal(error):
        raise error


def is_of_signal(error: BaseException) -> bool:
    """Whether a signal handler raised ``error``.

    Python hands a handler the frame that it interrupts, which is the one that seems to call it.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        if _is_handed(trace.tb_frame, trace.tb_next.tb_frame):
            return True
        trace = trace.tb_next
    return False


def _is_handed(caller: FrameType, called: FrameType) -> bool:
    arguments = inspect.getargvalues(called)
    given = [called.f_locals.get(name) for name in arguments.args]
    given += called.f_locals.get(arguments.varargs or "", ())
    return any(value is caller for value in given)
