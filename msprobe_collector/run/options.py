"""The options of ``msprobe-run``, checked before anything is started."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe_builder.base.version import __version__
from msprobe_builder.command.frame import add_language
from msprobe_collector.config.selector import expand_selector
from msprobe_collector.config.settings import (
    SKETCH,
    STATISTICS,
    SUMMARY_MODES,
    WHOLE_TRAINING,
    parse_config,
    read_file,
)
from msprobe_collector.errors import CollectorError
from msprobe_collector.run.settings import EXIT_STOPPED, Settings
from msprobe_collector.watch.reference import outline_of

PROGRAM = "msprobe-run"
EXIT_CANNOT_RUN = 1
EXIT_USAGE = 2
EXIT_DEPARTS = 91  # by --compare-compiled
EXIT_NOT_FOUND = 127
_HIGHEST_SEED = 2**32 - 1
_DUMP = "msprobe_dump"

_EPILOG = f"""\
exit status:
  that of the command; besides
  {EXIT_USAGE}    wrong usage, nothing was started
  {EXIT_STOPPED}   --stop-after ended the training, the steps are recorded
  {EXIT_DEPARTS}   --compare-compiled found a region that departs from eager
  {EXIT_NOT_FOUND}  the command cannot be started
"""


@dataclass(frozen=True)
class Request:
    """What to run, and what to record of it."""

    command: tuple[str, ...]
    config: dict[str, Any]  # keys of a configuration file of the recorder
    settings: Settings


def parser() -> argparse.ArgumentParser:
    """Of the options; what stands behind ``--`` is the command."""
    found = argparse.ArgumentParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [options] -- COMMAND",
        description="Run a training as it is and record its steps.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    found.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    add = found.add_argument
    add("-o", "--output", metavar="DIR", help=f"folder of the dump (default: {_DUMP})")
    add("--steps", metavar="0,10-12", help="steps to record (default: 0); all for every one")
    add("--ranks", metavar="0-3|dp=0", help="ranks to record, or the place on axes of the layout")
    add("--level", metavar="LEVEL", help="L0, L1 or mix (default: mix)")
    add("--task", metavar="TASK", help="statistics, tensor, structure or overflow_check")
    add("--summary", choices=SUMMARY_MODES, help="of each tensor (default: sketch)")
    add("--list", metavar="NAME,…", help="only calls whose names contain one of these")
    add("--config", metavar="FILE", help="a config.json of the recorder; options override it")
    add("--seed", metavar="N", help="seed every generator when torch is imported")
    add("--deterministic", action="store_true", help="with --seed: ask for deterministic kernels")
    add("--stop-after", action="store_true", help="end behind the last step, or one that differs")
    add("--estimate", action="store_true", help="write nothing, say how much it would be")
    add("--inside-compiled", action="store_true", help="run compiled regions call by call")
    add(
        "--compare-compiled",
        action="store_true",
        help="record nothing, say which compiled regions depart from eager",
    )
    add("--as-msprobe", action="store_true", help="let import msprobe find the collector")
    add("--plan", metavar="FILE", help="record what a plan of msprobe-bisect asks")
    add("--watch", metavar="DUMP", help="compare each call with this dump, save what differs")
    add("--watch-ranks", action="store_true", help="compare ranks that are replicas meanwhile")
    add("--trace", action="store_true", help="one line for each step instead of its calls")
    add_language(found)
    add("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="behind --")
    return found


def request_of(options: argparse.Namespace) -> Request:
    """The checked request; CollectorError for what cannot be, with one sentence."""
    command = tuple(options.command)
    if command[:1] == ("--",):
        command = command[1:]
    if not command:
        raise CollectorError(f"There is no command; write {PROGRAM} [options] -- COMMAND.")
    if command[0].startswith("-"):
        raise CollectorError(
            f"{command[0]} is no option of {PROGRAM}; the command comes behind --."
        )
    plan = _plan(options)
    ranks, coordinates = _ranks(options.ranks)
    config = _config(options, ranks, plan)
    checked = parse_config(config)
    if checked.task in WHOLE_TRAINING or checked.level == "debug":
        what = "level debug" if checked.level == "debug" else f"task {checked.task}"
        raise CollectorError(f"{PROGRAM} cannot do {what}; it needs lines in the script.")
    if options.stop_after and not checked.step:
        raise CollectorError("--stop-after needs to know the last step; add --steps.")
    if options.deterministic and options.seed is None:
        raise CollectorError("--deterministic needs --seed.")
    settings = Settings(
        last_step=max(checked.step, default=None),
        coordinates=coordinates,
        seed=plan.get("seed") if options.seed is None else _seed(options.seed),
        deterministic=options.deterministic,
        stop_after=options.stop_after or bool(plan),
        estimate=options.estimate,
        as_msprobe=options.as_msprobe,
        compare_compiled=options.compare_compiled,
        trace=options.trace or bool(plan.get("trace")),
    )
    return Request(command, {**config, "dump_path": str(checked.dump_path.absolute())}, settings)


def _plan(options: argparse.Namespace) -> dict[str, Any]:
    """What a file of :func:`plan_of` holds, nothing without."""
    if options.plan is None:
        return {}
    for name in ("config", "steps"):
        if getattr(options, name) is not None:
            raise CollectorError(f"--plan says what to record; leave --{name} out.")
    found = read_file(Path(options.plan))
    seed = found.get("seed")
    is_right = isinstance(found.get("config"), dict) and isinstance(found.get("trace"), bool)
    if not is_right or not (seed is None or isinstance(seed, int)):
        raise CollectorError(f"{options.plan} is no plan; msprobe-bisect --plan writes one.")
    return found


def plan_of(config: Mapping[str, Any], trace: bool, seed: int | None) -> dict[str, Any]:
    """The content of a file for ``--plan``."""
    return {"config": dict(config), "trace": trace, "seed": seed}


def _config(
    options: argparse.Namespace, ranks: list[str] | None, plan: Mapping[str, Any]
) -> dict[str, Any]:
    given = read_file(Path(options.config)) if options.config else plan.get("config", {})
    config = {"dump_path": _DUMP, "level": "mix", "step": [0], **given, **_watching(options, given)}
    chosen: dict[str, Any] = {
        "inside_compiled": options.inside_compiled or None,
        "dump_path": options.output,
        "level": options.level,
        "task": options.task,
        "rank": ranks,
        "step": None if options.steps is None else _numbers(options.steps, "--steps"),
    }
    config.update({key: value for key, value in chosen.items() if value is not None})
    section = {
        "summary_mode": options.summary,
        "list": None if options.list is None else _words(options.list),
    }
    wanted = {key: value for key, value in section.items() if value is not None}
    if wanted:
        task = config.get("task", "statistics")
        before = config.get(task, {})
        config[task] = {**before, **wanted} if isinstance(before, dict) else before
    return config


def _watching(options: argparse.Namespace, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a comparison with a dump records by itself: steps, level and numbers of that dump."""
    section = given.get("statistics") or {}
    if not isinstance(section, Mapping):
        return {}  # which parse_config refuses
    if options.watch_ranks:
        if options.watch is not None or options.estimate or options.trace:
            raise CollectorError("--watch-ranks goes without --watch, --estimate and --trace.")
        return {"watch_ranks": True, "statistics": {**section, "summary_mode": SKETCH}}
    if options.watch is None:
        return {}
    dump = Path(options.watch)
    outline = outline_of(dump)
    found: dict[str, Any] = {"watch": str(dump.absolute()), "level": outline.level}
    found["step"] = outline.steps
    numbers = SKETCH if outline.has_sketches else outline.checksum
    if numbers is None:
        found["statistics"] = {"summary_mode": STATISTICS, **section}
    else:
        found["statistics"] = {**section, "summary_mode": numbers}
    return found


def _numbers(text: str, option: str) -> list[int | str]:
    """``0,10-12`` as a configuration has it; an empty list stands for all."""
    if text == "all":
        return []
    items: list[int | str] = [
        int(item) if re.fullmatch(r"\d{1,7}", item) else item
        for item in (part.strip() for part in text.split(","))
    ]
    try:
        expand_selector(items, option)
    except CollectorError:
        raise CollectorError(
            f"{option} is {text!r}; write numbers and ranges such as 0,10-12, or all."
        ) from None
    return items


def _ranks(text: str | None) -> tuple[list[Any] | None, dict[str, int]]:
    """Numbers of ranks, or the place on each axis that is named."""
    if text is None:
        return None, {}
    if "=" not in text:
        return _numbers(text, "--ranks"), {}
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, place = part.strip().partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or not re.fullmatch(r"\d{1,7}", place):
            raise CollectorError(f"--ranks is {text!r}; write 0-3, or places on axes: dp=0,tp=0.")
        found[name] = int(place)
    return None, found


def _seed(text: str | None) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,10}", text) or int(text) > _HIGHEST_SEED:
        raise CollectorError(f"--seed is {text!r}; choose a whole number from 0 to 2**32 - 1.")
    return int(text)


def _words(text: str) -> list[str]:
    words = [part.strip() for part in text.split(",")]
    if not all(words):
        raise CollectorError(f"--list is {text!r}; write names with a comma between them.")
    return words
