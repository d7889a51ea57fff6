"""What to record: the keys of config.json, checked once and then immutable."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msprobe_builder.files.regular import read_text
from msprobe_collector.config.gradients import GradientSettings, parse_gradients
from msprobe_collector.config.monitor import MonitorSettings, parse_monitor
from msprobe_collector.config.narrowing import Slice, parse_request, parse_risk, parse_slices
from msprobe_collector.config.selector import expand_selector
from msprobe_collector.config.watching import DIFF_CHECK, as_watch, count_of_calls, watched
from msprobe_collector.errors import CollectorError

_log = logging.getLogger("msprobe_collector")

GRADIENTS = "grad_probe"
MONITOR = "monitor"
TASKS = ("statistics", "tensor", "structure", "overflow_check", GRADIENTS, MONITOR)
WHOLE_TRAINING = {GRADIENTS, MONITOR}  # tasks of which start() and stop() bound no step
LEVELS = ("L0", "L1", "mix", "debug")
DATA_MODES = ("all", "forward", "backward", "input", "output")
LAYOUTS = ("one_file", "files")
STATISTICS, MD5, XOR, SKETCH = "statistics", "md5", "xor", "sketch"
SUMMARY_MODES = (STATISTICS, MD5, XOR, SKETCH)

_COMMON_KEYS = {
    "task", "dump_path", "rank", "step", "level", "async_dump", "precision", "enable_dataloader",
    "dump_enable", "inside_compiled", "watch", "watch_calls", "watch_ranks",
    "extra_info", "risk_level",
}  # fmt: skip
_NUMBERS = ("data_mode", "summary_mode", "slice", "request_id")
_TASK_KEYS = {
    "statistics": {"scope", "list", "tensor_list", "flow", *_NUMBERS},
    "tensor": {"scope", "list", "file_format", "layout", "flow", *_NUMBERS},
    "structure": {"scope", "list", "flow"},
    "overflow_check": {"scope", "list", "overflow_nums", "check_mode"},
}
_SEED_KEYS = {"seed", "is_deterministic"}
# Keys that other recorders need, and why this one does not.
_WITHOUT_EFFECT = {
    "precision": "numbers are always reduced in float32 or better",
    "file_format": "tensors are written as torch writes them",
    "check_mode": "the numbers themselves say what overflowed",
    "custom_op_namespaces": "operators of all namespaces are recorded",
}
# Tasks of other recorders, and what does the same here.
_TASKS_ELSEWHERE = {
    "run_ut": "record task tensor and run msprobe-operators check on it",
    "acc_check": "record task tensor and run msprobe-operators check on it",
    "free_benchmark": "wrap the training in PerturbOperators of msprobe_operators",
    "exception_dump": "Ascend's driver makes it; task overflow_check finds what is not finite",
}
_SAME_TASK = {"nan_check": "overflow_check"}  # which asks the device; the numbers tell as well
_DEFAULT_DUMP_PATH = "dump_path"


# What of a configuration with dump_enable is read again: what is chosen, not what is made of it.
REREAD = (
    *("level", "rank", "step", "scope", "names", "tensor_list", "data_mode", "risk_level"),
    *("slices", "request"),
)


@dataclass(frozen=True)
class Config:
    """One checked configuration; ``docs/collect.md`` says what each key means."""

    dump_path: Path
    task: str = "statistics"
    level: str = "L1"
    rank: tuple[int, ...] = ()
    step: tuple[int, ...] = ()
    scope: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    tensor_list: tuple[str, ...] = ()
    data_mode: frozenset[str] = frozenset({"all"})
    summary_mode: str = STATISTICS
    async_dump: bool = False
    overflow_nums: int = 1
    follows_dataloader: bool = False
    layout: str = "one_file"
    flow: bool | None = None  # write which record made each tensor; see records_flow
    inside_compiled: bool = False  # run compiled regions call by call where they are recorded
    watch: Path | None = None  # a dump that calls are compared with while the training runs
    watch_calls: int = 5  # that differ, to be saved
    watch_ranks: bool = False  # compare ranks that are replicas while the training runs
    dump_enable: bool | None = None  # whether to record before the file says otherwise
    extra_info: bool = True  # stacks, and who called whom
    risk_level: str = "ALL"  # calls of which weight
    slices: tuple[Slice, ...] = ()  # of each tensor
    request: str | None = None  # whose rows are recorded, of those that start() is told
    source: Path | None = None  # the file that it was read from
    gradients: GradientSettings | None = None  # of task grad_probe
    monitor: MonitorSettings | None = None  # beside any task

    @property
    def with_modules(self) -> bool:
        return self.level in ("L0", "mix")

    @property
    def with_apis(self) -> bool:
        return self.level in ("L1", "mix")

    @property
    def records_flow(self) -> bool:
        """Whether makers of tensors are written: with sketches, and where there are no numbers."""
        if self.flow is None:
            with_sketches = self.task == "statistics" and self.summary_mode == SKETCH
            return (with_sketches or self.task == "structure") and self.extra_info
        return self.flow

    def collects(self, direction: str, side: str) -> bool:
        """Whether ``data_mode`` asks for this direction and this side of a call."""
        modes = self.data_mode
        if "all" in modes:
            return True
        directions = modes & {"forward", "backward"}
        sides = modes & {"input", "output"}
        return (not directions or direction in directions) and (not sides or side in sides)

    def collects_direction(self, direction: str) -> bool:
        """Whether ``data_mode`` asks for any side of the calls of this direction."""
        return self.collects(direction, "input") or self.collects(direction, "output")


def load_config(
    config_path: str | Path | None = None,
    task: str | None = None,
    dump_path: str | Path | None = None,
    level: str | None = None,
    step: Any = None,
) -> Config:
    """The configuration of ``config_path``; a value that is given here overrides the file."""
    if config_path is not None:
        content = read_file(Path(config_path))
    else:
        content = {"dump_path": _DEFAULT_DUMP_PATH}
    given = {"task": task, "dump_path": dump_path, "level": level, "step": step}
    content.update({key: value for key, value in given.items() if value is not None})
    config = parse_config(content)
    # Once and for all: a training may change its directory.
    config = replace(config, dump_path=config.dump_path.absolute())
    return config if config_path is None else replace(config, source=Path(config_path))


def parse_config(content: Mapping[str, Any]) -> Config:
    """Check every key of a configuration; unknown keys are named in a warning."""
    content = without_nulls(content)
    content, task = _task(content)
    level = _level(content)
    section = content.get(task, {})
    if not isinstance(section, Mapping):
        raise CollectorError(f"{task} in the configuration must be an object, not {section!r}.")
    section = without_nulls(section)
    if task in WHOLE_TRAINING:
        return _whole_training(content, task)
    _warn_unknown(content, section, task)
    if task == "structure" and level not in ("L0", "mix"):
        _log.warning("task structure needs level L0 or mix; %s was changed to mix.", level)
        level = "mix"
    if task == "overflow_check" and level == "debug":
        raise CollectorError("level debug works with task statistics or tensor only.")
    cuts = level != "debug" and "slice" in _TASK_KEYS[task]
    config = Config(
        dump_path=_path(content.get("dump_path")),
        task=task,
        level=level,
        rank=expand_selector(content.get("rank"), "rank"),
        step=expand_selector(content.get("step"), "step"),
        scope=_texts(section, "scope"),
        names=_texts(section, "list"),
        tensor_list=_texts(section, "tensor_list"),
        data_mode=_data_mode(section),
        summary_mode=_choice(section, "summary_mode", SUMMARY_MODES, _summary(task, level)),
        async_dump=_flag(content, "async_dump"),
        overflow_nums=_overflow_nums(section),
        layout=_choice(section, "layout", LAYOUTS, "one_file"),
        flow=switched_on(section, "flow") if "flow" in _TASK_KEYS[task] else None,
        follows_dataloader=_flag(content, "enable_dataloader"),
        watch=watched(content),
        watch_calls=count_of_calls(content),
        watch_ranks=_flag(content, "watch_ranks"),
        inside_compiled=_flag(content, "inside_compiled"),
        extra_info=content.get("extra_info") is None or _flag(content, "extra_info"),
        risk_level=parse_risk(content.get("risk_level", "ALL")),
        slices=parse_slices(section.get("slice", ())) if cuts else (),
        request=parse_request(section.get("request_id")) if cuts else None,
        dump_enable=switched_on(content),
        monitor=_monitor(content, task),
    )
    _check_scope(config)
    _check_watching(config)
    if config.summary_mode == SKETCH and level == "debug":
        raise CollectorError("summary_mode sketch works at level L0, L1 or mix, not at debug.")
    if config.flow and level == "debug":
        raise CollectorError("flow works at level L0, L1 or mix, not at debug; leave it out.")
    return config


def _whole_training(content: Mapping[str, Any], task: str) -> Config:
    section = content.get(task, {})
    return Config(
        dump_path=_path(content.get("dump_path")),
        task=task,
        rank=expand_selector(content.get("rank"), "rank"),
        step=expand_selector(content.get("step"), "step"),
        dump_enable=switched_on(content),
        gradients=parse_gradients(without_nulls(section)) if task == GRADIENTS else None,
        monitor=_monitor(content, task),
    )


def _monitor(content: Mapping[str, Any], task: str) -> MonitorSettings | None:
    is_wanted = MONITOR in content or task == MONITOR
    return parse_monitor(content.get(MONITOR, {})) if is_wanted else None


def read_file(path: Path) -> dict[str, Any]:
    """The keys of a configuration file."""
    try:
        content = json.loads(read_text(path), object_pairs_hook=_unique)
    except OSError as error:
        raise CollectorError(f"{path} cannot be read: {error.strerror}.") from error
    except CollectorError as error:
        raise CollectorError(f"{path}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise CollectorError(f"{path} is not valid JSON: {error}.") from error
    if not isinstance(content, dict):
        raise CollectorError(f"{path} must hold a JSON object with the keys of a configuration.")
    return content


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs; of two values for a key nobody knows which is meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise CollectorError(f"the key {twice} stands there twice; leave one out.")
    return found


def _warn_unknown(content: Mapping[str, Any], section: Mapping[str, Any], task: str) -> None:
    for key in sorted(_SEED_KEYS & content.keys()):
        _log.warning(
            "%s in the configuration is not applied; call seed_all(seed, mode) yourself.", key
        )
    for key, reason in _WITHOUT_EFFECT.items():
        asked = content.get(key, section.get(key))
        if asked is not None:
            _log.info("%s in the configuration has no effect here: %s.", key, reason)
    if "load" in content:
        _log.warning(
            "load in the configuration is not done here: modules are given what the program gives."
        )
    for name in _TASKS_ELSEWHERE:
        if name in content:
            _log.info("%s in the configuration is for another tool.", name)
    unknown = content.keys() - _COMMON_KEYS - _SEED_KEYS - set(TASKS) - set(_TASKS_ELSEWHERE)
    unknown -= _WITHOUT_EFFECT.keys() | {"load"}
    known = _TASK_KEYS[task] | _WITHOUT_EFFECT.keys()
    unknown |= {f"{task}.{key}" for key in section.keys() - known}
    for key in sorted(unknown):
        _log.warning("The configuration key %s is unknown and has no effect.", key)


def without_nulls(content: Mapping[str, Any]) -> dict[str, Any]:
    """A key that is null is as good as absent."""
    return {key: value for key, value in content.items() if value is not None}


def _task(content: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The task, and the configuration with what its name stands for."""
    task = content.get("task")
    if task in _TASKS_ELSEWHERE:
        raise CollectorError(f"Task {task} is not recorded here: {_TASKS_ELSEWHERE[task]}.")
    if task in _SAME_TASK:
        same = _SAME_TASK[task]
        _log.info("Task %s is task %s.", task, same)
        rest = {key: value for key, value in content.items() if key not in (task, "task")}
        section = {
            key: value for key, value in (content.get(task) or {}).items() if key != "data_mode"
        }
        content = {same: section, **rest, "task": same}
        task = same
    if task == DIFF_CHECK:
        return as_watch(content), "statistics"
    if task is None and MONITOR in content:
        return content, MONITOR
    if task != "md5":
        return content, _choice(content, "task", TASKS, "statistics")
    _log.info("Task md5 is task statistics with summary_mode md5.")
    section = content.get("md5", content.get("statistics")) or {}
    if not isinstance(section, Mapping):
        raise CollectorError(f"md5 in the configuration must be an object, not {section!r}.")
    rest = {key: value for key, value in content.items() if key != "md5"}
    section = {**section, "summary_mode": "md5"}
    return {**rest, "task": "statistics", "statistics": section}, "statistics"


def _level(content: Mapping[str, Any]) -> str:
    if content.get("level") == "L2":
        raise CollectorError(
            "Level L2 records kernels of a vendor's driver, which only its own tool can; "
            f"choose one of {', '.join(LEVELS)}."
        )
    return _choice(content, "level", LEVELS, "L1")


def _choice(content: Mapping[str, Any], key: str, allowed: tuple[str, ...], default: str) -> str:
    value = content.get(key, default)
    if not isinstance(value, str) or value not in allowed:
        raise CollectorError(f"{key} is {value!r}; choose one of {', '.join(allowed)}.")
    return value


def _flag(content: Mapping[str, Any], key: str) -> bool:
    value = content.get(key, False)
    if not isinstance(value, bool):
        raise CollectorError(f"{key} is {value!r}; write true or false.")
    return value


def switched_on(content: Mapping[str, Any], key: str = "dump_enable") -> bool | None:
    """Whether ``key`` says so, None without it."""
    return None if content.get(key) is None else _flag(content, key)


def _path(value: Any) -> Path:
    if value is None or value == "":
        raise CollectorError("dump_path is missing; name the directory to write the dump to.")
    if not isinstance(value, (str, Path)) or "\0" in str(value):
        raise CollectorError(f"dump_path is {value!r}; name the directory to write the dump to.")
    return Path(value)


def _texts(section: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = section.get(key, [])
    if not isinstance(value, (list, tuple)) or not all(
        isinstance(item, str) and item for item in value
    ):
        raise CollectorError(f"{key} is {value!r}; write a list of non-empty names.")
    return tuple(value)


def _data_mode(section: Mapping[str, Any]) -> frozenset[str]:
    value = frozenset(_texts(section, "data_mode") or ("all",))
    if not value <= set(DATA_MODES) or ("all" in value and len(value) > 1):
        raise CollectorError(
            f'data_mode is {sorted(value)}; write ["all"] or a selection of '
            "forward, backward, input, output."
        )
    return value


def _overflow_nums(section: Mapping[str, Any]) -> int:
    value = section.get("overflow_nums", 1)
    if isinstance(value, bool) or not isinstance(value, int) or (value < 1 and value != -1):
        raise CollectorError(
            f"overflow_nums is {value!r}; write how many overflows to record, or -1 for all."
        )
    return value


def _summary(task: str, level: str) -> str:
    """What each tensor is recorded by, unless the file says so."""
    return SKETCH if task == "statistics" and level != "debug" else STATISTICS


def _check_watching(config: Config) -> None:
    if not config.watch_ranks and config.watch is None:
        return
    key = "watch_ranks" if config.watch_ranks else "watch"
    other = "tensor_list" if config.tensor_list else f"task {config.task}"
    if config.watch_ranks and config.watch is not None:
        raise CollectorError("watch_ranks does not work with watch; leave one of them out.")
    if config.task != "statistics" or config.tensor_list:
        raise CollectorError(
            f"{key} saves the calls that differ itself and works with task statistics; "
            f"leave {other} out."
        )


def _check_scope(config: Config) -> None:
    if len(config.scope) not in (0, 2):
        raise CollectorError("scope must be empty or hold the full names of two calls.")
    modules = [name.startswith(("Module.", "Cell.")) for name in config.scope]
    if config.level == "L0" and not all(modules):
        raise CollectorError(
            "At level L0 both names in scope must be modules (Module.… or Cell.…)."
        )
    if config.level == "L1" and any(modules):
        raise CollectorError("At level L1 both names in scope must be API calls, not modules.")
