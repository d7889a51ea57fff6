"""The configuration file of ``TrainerMon``, in scripts of msprobe."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msprobe_collector.config.monitor import RULES, MonitorSettings
from msprobe_collector.config.selector import expand_selector
from msprobe_collector.config.settings import MONITOR, Config, read_file, switched_on
from msprobe_collector.config.switch import Switch
from msprobe_collector.errors import CollectorError

_log = logging.getLogger("msprobe_collector")
_OUTPUT = "MONITOR_OUTPUT_DIR"
_DYNAMIC = "DYNAMIC_MONITOR"
_FOLDER = "monitor_output"
# What each switch of theirs records here.
_KINDS = {
    "param_distribution": ("weight",),
    "xy_distribution": ("activation",),
    "wg_distribution": ("local_gradient", "gradient"),
    "mv_distribution": ("optimizer_state",),
    "ur_distribution": ("optimizer_state", "learning_rate"),
    "cc_distribution": ("communication",),
}
_FORMATS = {"tensorboard": "tensorboard", "csv": "csv", "api": "csv"}
_UNSEEN = ("forward_only", "backward_only", "print_struct", "ops", "eps", "ndigits")


def read_trainer_config(path: Path) -> tuple[Config, Switch | None]:
    """What to record, and what switches it on while the training runs.

    Raises CollectorError when a value is wrong.
    """
    content = read_file(path)
    config = Config(
        dump_path=Path(os.environ.get(_OUTPUT) or _FOLDER).absolute(),
        task=MONITOR,
        rank=expand_selector(content.get("module_ranks"), "module_ranks"),
        monitor=settings_of(content),
    )
    if os.environ.get(_DYNAMIC) != "True":
        return config, None
    return config, Switch(path, bool(switched_on(content, "dynamic_on")), "dynamic_on")


def settings_of(content: Mapping[str, Any]) -> MonitorSettings:
    """What a configuration of theirs records; keys without an effect are named."""
    targets = content.get("targets") or {}
    if not isinstance(targets, Mapping):
        raise CollectorError(f"targets is {targets!r}; write an object of names of modules.")
    names = [name for name in targets if name] or [""]
    patterns = tuple(dict.fromkeys(f"{name}*" for name in names))
    record: dict[str, tuple[str, ...]] = {}
    for key, kinds in _KINDS.items():
        asked = content.get(key)
        is_on = asked.get("enable") if isinstance(asked, Mapping) else asked
        if is_on:
            record |= {kind: ("*",) if kind == "communication" else patterns for kind in kinds}
    if content.get("all_xy") and "activation" in record:
        record |= dict.fromkeys(("input", "activation_gradient"), patterns)
    if not record:
        raise CollectorError(f"Nothing is monitored: set one of {', '.join(_KINDS)}.")
    for key in _UNSEEN:
        if content.get(key):
            _log.info("%s in the monitor's configuration has no effect here.", key)
    kind = content.get("format", "csv")
    if kind not in _FORMATS:
        raise CollectorError(f"format is {kind!r}; choose one of {', '.join(_FORMATS)}.")
    return MonitorSettings(
        record,
        every=_count(content, "step_interval", 1),
        formats=(_FORMATS[kind],),
        alerts=dict(RULES) if content.get("alert") else {},
        first_step=_count(content, "start_step", 0),
        steps=_count(content, "collect_times", 1) if "collect_times" in content else None,
    )


def _count(content: Mapping[str, Any], key: str, least: int) -> int:
    value = content.get(key, least)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise CollectorError(f"{key} is {value!r}; write a whole number from {least} on.")
    return value
