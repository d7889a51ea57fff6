"""Gathering a configuration into one zip file."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.publish import written
from msprobe_builder.configuration.secrets import allowed_variables, without_secrets
from msprobe_builder.files.text_files import parse_yaml, read_text_file
from msprobe_checks.configuration.shell import read_script

_DEEPEST = 30  # mappings inside each other
_SCRIPTS = (".sh", ".bash", ".txt", "")  # what else is given is a configuration


def collect_static(files: Sequence[Path], output: Path) -> dict[str, int]:
    """Write environment, packages and the options in scripts and YAML files; how many of each.

    What a script exports counts as set: so the training gets it. Raises UsageError for a file that
    cannot be read.
    """
    options = {path.name: options_in(path) for path in files}
    packages = installed_packages()
    exports = {name: value for path in files for name, value in _exports(path).items()}
    variables = allowed_variables({**os.environ, **exports})
    with written(output) as stream:
        write_pack(stream, variables, packages, options)
    return {
        "variables": len(variables),
        "packages": len(packages),
        "options": sum(map(len, options.values())),
    }


def write_pack(
    stream: BinaryIO,
    variables: Mapping[str, str],
    packages: Mapping[str, str],
    options: Mapping[str, Mapping[str, object]],
    more: Iterable[tuple[str, object]] = (),
) -> None:
    """The zip file, in the layout that the documents describe."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as pack:
        pack.writestr("env", _json(variables))
        lines = (f"{name}={version}" for name, version in sorted(packages.items()))
        pack.writestr("pip", "\n".join(lines) + "\n")
        if options:
            pack.writestr("hyperparameters/hyperparameters_static.json", _json(options))
        for name, content in more:
            pack.writestr(name, _json(content))


def _json(content: object) -> str:
    return json.dumps(content, indent=1, default=str)


def installed_packages() -> dict[str, str]:
    """Version by normalised name of every installed distribution."""
    found = {}
    for one in metadata.distributions():
        name = one.metadata["Name"]
        if name:
            found[re.sub(r"[-_.]+", "-", name).lower()] = one.version
    return found


def options_in(path: Path) -> dict[str, object]:
    """Options in a launch script, or the values in a YAML or JSON file by their dotted path."""
    text = _read(path)
    if path.suffix in _SCRIPTS:
        return without_secrets(read_script(text).options)
    if path.suffix not in (".yaml", ".yml", ".json"):
        raise UsageError(f"{path} is neither a script (.sh) nor a configuration (.yaml, .json).")
    content = parse_yaml(path, text, "correct it there")
    return without_secrets(dict(flat(content)))


def _exports(path: Path) -> dict[str, str]:
    return read_script(_read(path)).exports if path.suffix in _SCRIPTS else {}


def _read(path: Path) -> str:
    return read_text_file(path, "give the script or YAML file that starts the training")


def flat(content: object, prefix: str = "", depth: int = 0) -> Iterable[tuple[str, Any]]:
    """Every value by its whole path: two that end alike stay two."""
    if isinstance(content, Mapping) and depth < _DEEPEST:
        for key, value in content.items():
            yield from flat(value, f"{prefix}.{key}" if prefix else str(key), depth + 1)
    elif prefix:
        yield prefix, _writable(content)


def _writable(content: object, depth: int = 0) -> object:
    """A value as JSON has them: with texts for keys, and with an end though it holds itself."""
    if not isinstance(content, Mapping | list | tuple | set):
        return content
    if depth >= _DEEPEST:
        return "…"
    if isinstance(content, Mapping):
        return {str(key): _writable(value, depth + 1) for key, value in content.items()}
    return [_writable(value, depth + 1) for value in content]
