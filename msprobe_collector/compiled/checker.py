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

from msprobe_builder.facts.fact import Fact, fact
from msprobe_collector.compiled.backends import Backends, Region, frames_of
from msprobe_collector.compiled.comparing import Departure, departures, draws
from msprobe_collector.compiled.narrowing import compiled, culprit, part_at_fault
from msprobe_collector.intercept.names import describe_function
from msprobe_collector.signals import pass_on_if_of_signal

_log = logging.getLogger("msprobe_collector")


class CompiledChecker:
    """Compares each region once, when the training first runs it; the training takes no notice."""

    def __init__(self, tell: Callable[[Fact | None], None]) -> None:
        """``tell`` is given a fact for each region that departs, None for the others."""
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


def told(region: Region, args: tuple[Any, ...]) -> Fact | None:
    """What is said of a region that departs from eager, None if it does not."""
    drawn = draws(region.graph, args)
    with _drawing_as_eager() if drawn else nullcontext():
        run = compiled(region.graph, region.backend) if drawn else region.run
        found = departures(region.graph, run, args, drawn=drawn)
        return _fact(region, args, found, drawn) if found else None


def _drawing_as_eager() -> AbstractContextManager[Any]:
    """What is compiled meanwhile draws the random numbers that eager draws."""
    from torch._inductor import config

    return config.patch(fallback_random=True)


def _fact(region: Region, args: tuple[Any, ...], found: list[Departure], drawn: bool) -> Fact:
    blamed = culprit(region, args, drawn)
    if blamed is None:
        first = fact("run.fusion_departs")
    else:
        first = fact(
            "run.call_departs",
            way=fact("run.backward" if blamed.is_backward else "run.forward"),
            call=f"{_name(blamed.node)}{_place(blamed.node)}",
            by=_times(blamed.departure.times),
            alone=fact("run.compiled_alone") if blamed.alone else None,
        )
    return fact(
        "run.region_departs",
        region=region.number,
        place=region.place,
        calls=len(region.calls),
        what=found[0].what,
        by=_times(found[0].times),
        drawn=fact("run.drawn_as_eager") if drawn else None,
        first=first,
        part=part_at_fault(region, args, drawn),
    )


def _times(times: float) -> Fact:
    if math.isinf(times):
        return fact("run.no_number_in_one")
    return fact("run.times_allowed", times=times)


def _name(node: Node) -> str:
    if node.op == "call_method":
        return f"Tensor.{node.target}"
    target: Any = node.target
    label = describe_function(target).label
    return label if label.partition(".")[2] else getattr(target, "__name__", str(target))


def _place(node: Node) -> str:
    frames = frames_of(node)
    return f" ({Path(frames[-1][0]).name}:{frames[-1][1]})" if frames else ""
