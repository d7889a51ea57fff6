"""The options that a training printed into its log: of verl a dictionary, of slime a list."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from msprobe_builder.base.errors import BuildError
from msprobe_builder.configuration.pack import Pack
from msprobe_builder.configuration.secrets import without_secrets
from msprobe_builder.files.text_files import read_text_file
from msprobe_checks.configuration.collect import flat, options_in

LOGS = (".log", ".txt")
CONFIGURATIONS = (".yaml", ".yml", ".json")
_NAME = "options"  # by which both sides are held against each other
_VERL = re.compile(r"\{\s*['\"]actor_rollout_ref['\"]\s*:")
_BEGIN, _END = (re.compile(rf"-+ {words} -+") for words in ("arguments", "end of arguments"))
_ARGUMENT = re.compile(r"(?:^|\s)([\w\-./]+) \.{2,} (.*)$")
_LONGEST = 1 << 20  # characters of a printed dictionary


def options_of_log(path: Path) -> dict[str, object]:
    """Every option by its dotted name, as it was printed last; BuildError when there is none."""
    lines = read_text_file(path, "give the log of a training").splitlines()
    starts = [number for number, line in enumerate(lines) if _VERL.search(line)]
    if starts:
        return without_secrets(dict(flat(_dictionary(path, lines[starts[-1] :]))))
    begins = [number for number, line in enumerate(lines) if _BEGIN.search(line)]
    if not begins:
        raise BuildError(
            f"{path} holds no options: neither the dictionary that verl prints "
            "({'actor_rollout_ref': …) nor a block of '--- arguments ---'."
        )
    found: dict[str, object] = {}
    for line in lines[begins[-1] + 1 :]:
        if _END.search(line):
            break
        argument = _ARGUMENT.search(line.rstrip())
        if argument:
            found[argument[1]] = argument[2].strip()
    return without_secrets(found)


def _dictionary(path: Path, lines: list[str]) -> object:
    """What is printed over several lines, each behind the same words, such as ``(pid=3)``."""
    start = _VERL.search(lines[0])
    assert start is not None
    before = lines[0][: start.start()]
    text = ""
    for line in lines:
        text += line[len(before) :] if line.startswith(before) else line
        text += "\n"
        if len(text) > _LONGEST:
            break
        if text.count("}") < text.count("{"):  # at best it ends with this line
            continue
        try:
            return ast.literal_eval(text.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    raise BuildError(f"{path} is damaged: the options that verl printed have no end in it.")


def read_options(path: Path) -> Pack:
    """One side of a comparison: a log, or a YAML or JSON file of options that must hold."""
    found = options_of_log(path) if path.suffix in LOGS else options_in(path)
    return Pack(path, options={_NAME: dict(found)})


def as_far_as(pack: Pack, other: Pack) -> Pack:
    """A pack with those options alone that the other one has."""
    wanted = other.options[_NAME]
    known = pack.options[_NAME]
    return Pack(pack.path, options={_NAME: {name: known[name] for name in wanted if name in known}})
