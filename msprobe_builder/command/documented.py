"""Commands as msprobe's documents write them: ``-f pytorch graph -i compare.json -o out``."""

from __future__ import annotations

from collections.abc import Sequence

from msprobe_builder.base.errors import UsageError

_FRAMEWORK = ("-f", "--framework")
_FRAMEWORKS = ("pytorch", "mindspore")
_COLLECT = ("-d", "--dump")
_COMPARE = ("-c", "--compare")


def translated(given: Sequence[str]) -> list[str]:
    """What the documents of msprobe write in words of ours, and anything else as it is.

    The framework in front is left out: dumps say themselves which they are of. Raises UsageError
    for a command behind it that is not in the documents.
    """
    words = list(given)
    if len(words) > 1 and words[0] in _FRAMEWORK and not words[1].startswith("-"):
        if words[1] not in _FRAMEWORKS:
            raise UsageError(f"-f {words[1]} is no framework; write pytorch or mindspore there.")
        return _command(words[2:])
    return words


def _command(words: list[str]) -> list[str]:
    if not words:
        raise UsageError("A command is missing after -f; write graph, compare or config_check.")
    word, rest = words[0], words[1:]
    if word == "graph":
        return rest
    if word == "compare":
        return ["table", *rest]
    if word == "config_check":
        return _config_check(rest)
    if word == "run_overflow_check":
        raise UsageError(f"{word} is done by another program; write msprobe-operators in front.")
    raise UsageError(
        f"'{word}' is none of the commands known after -f: graph, compare, config_check."
    )


def _config_check(words: list[str]) -> list[str]:
    """Collecting, or comparing of what the first path is: a collected file, or a checkpoint."""
    rest = [word for word in words if word not in (*_COLLECT, *_COMPARE)]
    if any(word in _COLLECT for word in words):
        return ["config", "collect", *rest]
    for place, word in enumerate(words):
        if word in _COMPARE:
            is_collected = any(path.endswith(".zip") for path in words[place + 1 : place + 2])
            return ["config", "compare", *rest] if is_collected else ["checkpoint", *rest]
    raise UsageError("config_check needs -d to collect, or -c with two paths to compare.")
