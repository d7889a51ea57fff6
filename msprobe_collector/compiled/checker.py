"""``msprobe-run --compare-compiled``: which compiled regions depart from eager, and where."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from torch.fx import Node

from msprobe_collector.compiled.backends import Backends, Region, frames_of
from msprobe_collector.compiled.comparing import Departure, departures, draws
from msprobe_collector.compiled.narrowing import compiled, culprit, part_at_fault
from msprobe_collector.intercept.names import describe_function
from msprobe_collector.signals import pass_on_if_of_signal

_log = logging.getLogger("msprobe_collector")


class CompiledChecker:
    """Compares each region once, when the training first runs it; the training takes no notice."""

    def __init__(self, tell: Callable[[str | None], None]) -> None:
        """``tell`` is given a sentence for each region that departs, None for the others."""
        self._tell = tell
        self._is_comparing = False
        self._compared: set[int] = set()

    def install(self) -> None:
        """Compare what is compiled from here on. CollectorError if this torch cannot."""
        Backends(self._enter).install()

    def _enter(self, region: Region, args: tuple[Any, ...]) -> Any:
        if not self._is_comparing and region.number not in self._compared:
            self._compared.add(region.number)
            self._is_comparing = True
            try:
                self._tell(told(region, args))
            except Exception as error:
                pass_on_if_of_signal(error)
                _log.warning("Region %d was not compared: %r.", region.number, error)
            finally:
                self._is_comparing = False
        return region.run(*args)


def told(region: Region, args: tuple[Any, ...]) -> str | None:
    """What is said of a region that departs from eager, None if it does not."""
    drawn = draws(region.graph, args)
    with _drawing_as_eager() if drawn else nullcontext():
        run = compiled(region.graph, region.backend) if drawn else region.run
        found = departures(region.graph, run, args, drawn=drawn)
        return _sentence(region, args, found, drawn) if found else None


def _drawing_as_eager() -> AbstractContextManager[Any]:
    """What is compiled meanwhile draws the random numbers that eager draws."""
    from torch._inductor import config

    return config.patch(fallback_random=True)


def _sentence(region: Region, args: tuple[Any, ...], found: list[Departure], drawn: bool) -> str:
    first = found[0]
    sentence = (
        f"Region {region.number} ({region.place}; {len(region.calls)} calls) departs from eager:"
        f" {first.what} is {_times(first.times)}."
    )
    if drawn:
        sentence += " It was compiled anew, to draw the random numbers that eager draws."
    blamed = culprit(region, args, drawn)
    if blamed is None:
        sentence += " No call departs when it is compiled alone: what is fused does."
    else:
        way = "backward" if blamed.is_backward else "forward"
        alone = " alone" if blamed.alone else ""
        sentence += (
            f" The first to depart is the {way} of {_name(blamed.node)}{_place(blamed.node)},"
            f" {_times(blamed.departure.times)}{alone}."
        )
    return f"{sentence} The operators go wrong {part_at_fault(region, args, drawn)}."


def _times(times: float) -> str:
    if math.isinf(times):
        return "other than eager where one of them has no number"
    return f"off by {times:,.1f} times what rounding allows"


def _name(node: Node) -> str:
    if node.op == "call_method":
        return f"Tensor.{node.target}"
    target: Any = node.target
    label = describe_function(target).label
    return label if label.partition(".")[2] else getattr(target, "__name__", str(target))


def _place(node: Node) -> str:
    frames = frames_of(node)
    return f" ({Path(frames[-1][0]).name}:{frames[-1][1]})" if frames else ""
