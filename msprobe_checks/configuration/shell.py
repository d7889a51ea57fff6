"""Options and environment of a training in the script that starts it.

Only what stands there is read: assignments are followed, nothing is run. An option that is
followed by another one is a flag and has the value ``true``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)\Z", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?:\[[@*]\])?(?::?-([^}]*))?\}|(\w+))")
_WHOLE_VARIABLE = re.compile(r"(?:\$(?:\{\w+(?:\[[@*]\])?(?::?-[^}]*)?\}|\w+)\s*)+\Z")
_NUMBER = re.compile(r"-(\d|\.\d|inf\b)")
_LAUNCHERS = frozenset({"torchrun", "msrun", "deepspeed", "accelerate", "mpirun", "srun"})
_DEEPEST = 20  # variables inside variables
_LONGEST = 1 << 20  # characters of an expanded value


@dataclass(frozen=True)
class Launch:
    """What a script gives to the programs that it starts.

    ``options`` by their names without dashes, those of the launcher itself (``--nproc_per_node``)
    among them: they shape the training as well. ``exports`` are variables of the environment. The
    last value of what is repeated counts.
    """

    options: dict[str, str]
    exports: dict[str, str]


def read_script(script: str) -> Launch:
    """Every option and variable that a Python program or its launcher gets."""
    variables: dict[str, str] = {}
    found = Launch({}, {})
    for statement in _statements(script):
        words = list(statement)
        before: set[str] = set()  # assigned for one command
        while words and (assigned := _ASSIGNMENT.match(words[0])):
            name, more, value = assigned.groups()
            value = _expanded(value, variables)
            variables[name] = f"{variables.get(name, '')} {value}".strip() if more else value
            before.add(name)
            words.pop(0)
        if words[:1] in (["export"], ["local"], ["readonly"], ["declare"]):
            for word in words[1:]:
                if assigned := _ASSIGNMENT.match(word):
                    variables[assigned[1]] = _expanded(assigned[3], variables)
                name = assigned[1] if assigned else word
                if words[0] == "export" and name in variables:
                    found.exports[name] = variables[name]
            continue
        expanded = [part for word in words for part in _parts(word, variables)]
        if _starts_training(expanded):
            found.options.update(_options(expanded))
            found.exports.update((name, variables[name]) for name in sorted(before))
    return found


def _statements(script: str) -> Iterator[list[str]]:
    """The words of each simple command; quotes are gone, array assignments are one word."""
    text = script.replace("\\\r\n", " ").replace("\\\n", " ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()\n")
    lexer.whitespace, lexer.commenters = " \t\r", ""
    lexer.whitespace_split = True
    words: list[str] = []
    array: str | None = None  # the name of the array being read
    is_comment = False
    try:
        for token in lexer:
            if set(token) <= set(";&|()\n"):
                is_comment = is_comment and "\n" not in token
                if array is None and token.startswith("(") and words and words[-1].endswith("="):
                    array, token = words.pop(), token[1:]
                if array is not None and ")" in token:
                    words, array = [array + shlex.join(words)], None
                elif array is None and words:
                    yield words
                    words = []
            elif is_comment or token.startswith("#"):
                is_comment = True
            else:
                words.append(token)
    except ValueError:  # a quotation that is never closed: what came before it counts
        pass
    if words:
        yield words


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    for _ in range(_DEEPEST):
        replaced = _VARIABLE.sub(
            lambda found: variables.get(found[1] or found[3], found[2] or ""), text
        )[:_LONGEST]
        if replaced == text:
            break
        text = replaced
    return text


def _parts(word: str, variables: Mapping[str, str]) -> list[str]:
    """A word, or the words in the variables that it is made of."""
    expanded = _expanded(word, variables)
    if not _WHOLE_VARIABLE.match(word):
        return [expanded]
    try:
        return shlex.split(expanded)
    except ValueError:
        return expanded.split()


def _starts_training(words: Sequence[str]) -> bool:
    names = [word.rpartition("/")[2] for word in words]
    is_launched = any(name in _LAUNCHERS or re.match(r"python[\d.]*\Z", name) for name in names)
    return is_launched and any(word.startswith("--") for word in words)


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for place, word in enumerate(words):
        if not word.startswith("--") or word == "--":
            continue
        name, equals, value = word[2:].partition("=")
        if not equals:
            values = []
            for following in words[place + 1 :]:
                if following.startswith("-") and not _NUMBER.match(following):
                    break
                if following.endswith((".py", ">")) or following in (">", "2>", "<"):
                    break
                values.append(following)
            value = " ".join(values) if values else "true"
        if name:
            yield name.replace("_", "-"), value
