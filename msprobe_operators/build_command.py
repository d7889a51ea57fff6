"""``msprobe-build operators``: the program of single operators, by its own words or msprobe's."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from msprobe_builder.base.errors import UsageError
from msprobe_builder.files.text_files import parse_yaml, read_text_file

_DEVICES = ("npu", "cuda", "xpu")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.description = "Do what msprobe-operators does: check, perturb, overflow, script, join."
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND …")


def run(options: argparse.Namespace) -> int:
    """Do it."""
    from msprobe_operators.command import main

    words = list(options.words)
    if words and words[0] in _TRANSLATIONS:
        words = _TRANSLATIONS[words[0]](words[0], words[1:])
    return main(words)


class _Words(argparse.ArgumentParser):
    def __init__(self, command: str) -> None:
        super().__init__(prog=command, add_help=False, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}.")


def _check(command: str, words: list[str]) -> list[str]:
    """``acc_check -api_info dump.json -o out -d 0 1``, in version 8 ``run_ut``."""
    parser = _Words(command)
    parser.add_argument("-api_info", "--api_info_file", required=True)
    parser.add_argument("-o", "--out_path", default="operator_check")
    parser.add_argument("-d", "--device", nargs="+", type=int, default=[0])
    parser.add_argument("-n", "--num_splits", type=int, default=1)
    parser.add_argument("-csv_path", "--result_csv_path")
    parser.add_argument("-config", "--config_path")
    # What concerns Ascend alone, or is done always: only what differs is kept, nothing is filtered.
    for one in (("-j", "--jit_compile"), ("-f", "--filter_api"), ("-save_error_data",)):
        parser.add_argument(*one, action="store_true")
    options = parser.parse_args(words)
    if options.result_csv_path:
        raise UsageError(
            f"{command} -csv_path is not needed: the same command with the same -o goes on from "
            "where it was stopped."
        )
    result = ["check", options.api_info_file, "-o", options.out_path]
    result += ["--device", ",".join(f"{_device()}:{one}" for one in options.device)]
    if _device() == "cpu":
        result[-1] = "cpu"
    result += ["--workers", str(options.num_splits)]
    for name in _white_list(command, options.config_path):
        result += ["--call", name]
    return result


def _white_list(command: str, path: str | None) -> list[str]:
    if path is None:
        return []
    content = _read(path)
    if content.get("black_list"):
        raise UsageError(f"{command}: black_list in {path} is not known; name calls in white_list.")
    return [str(name) for name in content.get("white_list") or []]


def _read(path: str) -> dict[str, Any]:
    text = read_text_file(Path(path), "give a JSON or YAML file")
    try:
        content = json.loads(text)
    except ValueError:
        content = parse_yaml(Path(path), text, "correct it there")
    if not isinstance(content, dict):
        raise UsageError(f"{path} holds no keys.")
    return content


def _device() -> str:
    import torch

    for name in _DEVICES:
        module = getattr(torch, name, None)
        if module is not None and module.is_available():
            return name
    return "cpu"


def _overflow(command: str, words: list[str]) -> list[str]:
    parser = _Words(command)
    parser.add_argument("-api_info", "--api_info_file", "--api_info", required=True)
    parser.add_argument("-j", "--jit_compile", nargs="?")
    parser.add_argument("-d", "--device", type=int)
    parser.add_argument("-o", "--output-path")
    options = parser.parse_args(words)
    output = [] if options.output_path is None else ["-o", options.output_path]
    return ["overflow", options.api_info_file, *output]


def _script(command: str, words: list[str]) -> list[str]:
    """``op_generate -i config.json -o DIR``: the file names the dump and the call."""
    parser = _Words(command)
    parser.add_argument("-i", "--config_input", required=True)
    parser.add_argument("-o", "--api_output_path", default=".")
    options = parser.parse_args(words)
    content = _read(options.config_input)
    dump, name = content.get("dump_json_path"), content.get("api_name")
    if not dump or not name:
        raise UsageError(
            f"{options.config_input} lacks dump_json_path or api_name: which call of which dump?"
        )
    path = Path(options.api_output_path) / f"{name}.py"
    return ["script", str(dump), "--call", str(name), "-o", str(path), "--device", _device()]


def _join(command: str, words: list[str]) -> list[str]:
    parser = _Words(command)
    parser.add_argument("-npu", "--npu_csv_path", required=True)
    parser.add_argument("-gpu", "--gpu_csv_path", required=True)
    parser.add_argument("-o", "--out_path", default=".")
    options = parser.parse_args(words)
    return ["join", options.npu_csv_path, options.gpu_csv_path, "-o", options.out_path]


_TRANSLATIONS: dict[str, Callable[[str, list[str]], list[str]]] = {
    "run_ut": _check,
    "multi_run_ut": _check,
    "acc_check": _check,
    "multi_acc_check": _check,
    "run_overflow_check": _overflow,
    "op_generate": _script,
    "api_precision_compare": _join,
}
