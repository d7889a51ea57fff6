"""The keys below ``monitor`` in config.json."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from msprobe_collector.errors import CollectorError

_log = logging.getLogger("msprobe_collector")

# In the order in which a step comes by them.
KINDS = (
    *("weight", "input", "activation", "activation_gradient", "local_gradient", "communication"),
    *("gradient", "learning_rate", "optimizer_state", "updated_weight"),
)
# What is recorded only where it is named.
_ASKED_FOR = ("communication", "input", "activation_gradient", "updated_weight")
FORMATS = ("tensorboard", "csv", "parquet")
RULES = {"nan": 1.0, "jump": 10.0, "vanishing": 1000.0}
_LARGEST_FACTOR = 1e300
_KEYS = {"record", "every", "micro_batches", "formats", "alerts", "sketches"}
_USUAL = [kind for kind in KINDS if kind not in _ASKED_FOR]
_EVERYTHING = dict.fromkeys(_USUAL, ("*",))


@dataclass(frozen=True)
class MonitorSettings:
    """What is watched of each step; ``docs/monitor.md`` says what each key means."""

    record: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _EVERYTHING)
    every: int = 1
    micro_batches: bool = False  # each by itself, too
    formats: tuple[str, ...] = ("tensorboard", "csv")
    alerts: Mapping[str, float] = field(default_factory=lambda: RULES)
    first_step: int = 0
    steps: int | None = None  # how many to record, None for all
    sketches: bool = False  # of the elements, beside their numbers

    @property
    def records_all(self) -> bool:
        """Whether no kind was chosen."""
        return self.record == _EVERYTHING

    def selects(self, step: int) -> bool:
        """Whether this step is recorded."""
        past = step - self.first_step
        if past < 0 or past % self.every:
            return False
        return self.steps is None or past // self.every < self.steps

    def wants(self, kind: str, name: str) -> bool:
        """Whether a pattern of ``record`` names it."""
        return any(fnmatchcase(name, pattern) for pattern in self.record.get(kind, ()))


def parse_monitor(section: Any) -> MonitorSettings:
    """Check the section; CollectorError names key and remedy."""
    if not isinstance(section, Mapping):
        raise CollectorError(f"monitor in the configuration must be an object, not {section!r}.")
    for key in sorted(section.keys() - _KEYS):
        _log.warning("The configuration key monitor.%s is unknown and has no effect.", key)
    every = section.get("every", 1)
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise CollectorError(f"monitor.every is {every!r}; write a number of steps, from 1 on.")
    micro_batches = section.get("micro_batches", False)
    if not isinstance(micro_batches, bool):
        raise CollectorError(f"monitor.micro_batches is {micro_batches!r}; write true or false.")
    sketches = section.get("sketches", False)
    if not isinstance(sketches, bool):
        raise CollectorError(f"monitor.sketches is {sketches!r}; write true or false.")
    formats = section.get("formats", ["tensorboard", "csv"])
    if (
        not isinstance(formats, (list, tuple))
        or not formats
        or any(one not in FORMATS for one in formats)
    ):
        raise CollectorError(
            f"monitor.formats is {formats!r}; write a list of some of {', '.join(FORMATS)}."
        )
    record = _record(section.get("record", _USUAL))
    alerts = _alerts(section.get("alerts", {}))
    return MonitorSettings(record, every, micro_batches, tuple(formats), alerts, sketches=sketches)


def _record(value: Any) -> dict[str, tuple[str, ...]]:
    if isinstance(value, (list, tuple)):
        value = {str(kind): ["*"] for kind in value}
    if not isinstance(value, Mapping) or not value or not set(value) <= set(KINDS):
        raise CollectorError(
            "monitor.record must name what to record, with patterns of names for each: some of "
            f"{', '.join(KINDS)}."
        )
    for kind, patterns in value.items():
        is_list = isinstance(patterns, (list, tuple)) and patterns
        if not is_list or not all(isinstance(one, str) and one for one in patterns):
            raise CollectorError(
                f'monitor.record.{kind} is {patterns!r}; write patterns such as ["*mlp*"].'
            )
    return {kind: tuple(value[kind]) for kind in KINDS if kind in value}


def _alerts(value: Any) -> dict[str, float]:
    if value is False:
        return {}
    if not isinstance(value, Mapping) or not set(value) <= set(RULES):
        raise CollectorError(
            f"monitor.alerts is {value!r}; write false or an object of {', '.join(RULES)}."
        )
    limits = dict(RULES)
    for rule, limit in value.items():
        if limit is False:
            del limits[rule]
        elif limit is not True:
            is_number = isinstance(limit, (int, float)) and 1 < limit < _LARGEST_FACTOR
            if not is_number or rule == "nan":
                raise CollectorError(
                    f"monitor.alerts.{rule} is {limit!r}; write true or false"
                    + ("." if rule == "nan" else ", or a factor above 1.")
                )
            limits[rule] = float(limit)
    return limits
