"""Commands as msprobe's documents write them, of version 8 and of version 26.

``-f pytorch graph -i compare.json -o out`` and ``graph_visualize -tp A -gp B -o out`` are said in
words of ours, so that command lines run as they stand.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from msprobe_builder.base.errors import UsageError
from msprobe_builder.files.regular import read_start

_FRAMEWORK = ("-f", "--framework")
_FRAMEWORKS = ("pytorch", "mindspore")
_COLLECT = ("-d", "--dump")
_COMPARE = ("-c", "--compare")
_LOGS = ("-vc", "--verl-compare", "-sc", "--slime-compare")
_VERIFY = ("-vv", "--verl-verify")
_ZIP = b"PK\x03\x04"
_MOST_PLACES = 100_000  # steps or ranks that an option may list
# Done by the program of single operators.
_OPERATORS = (
    *("run_ut", "multi_run_ut", "acc_check", "multi_acc_check", "run_overflow_check"),
    *("op_generate", "api_precision_compare"),
)
# What runs on Ascend hardware alone, or with the software that comes with it.
_REFUSED = {
    "parse": "It converts files of kernels that only Ascend devices dump",
    "offline_dump": "It runs .om and .onnx models by the inference engine of Ascend devices",
    "code_mapping": "It reads the compiler's graphs of MindSpore on Ascend devices",
    "install_deps": "It installs software for Ascend devices",
}
_OTHER_MODES = ("offline_data", "torchair", "offline_model", "atb")


def translated(given: Sequence[str], stack: ExitStack) -> list[str]:
    """What the documents of msprobe write in words of ours, and anything else as it is.

    The framework in front is left out: dumps say themselves which they are of. Files that are
    written on the way last as long as ``stack``. Raises UsageError for what cannot be done here.
    """
    words = list(given)
    if len(words) > 1 and words[0] in _FRAMEWORK and not words[1].startswith("-"):
        if Path(words[1]).is_dir() and words[1] not in _FRAMEWORKS:
            return words  # -f of the build, and the folder of a dump
        if words[1] not in _FRAMEWORKS:
            raise UsageError(f"-f {words[1]} is no framework; write pytorch or mindspore there.")
        if not words[2:]:
            raise UsageError("A command is missing after -f; write graph, compare or config_check.")
        if words[2] not in (*_TRANSLATIONS, *_OPERATORS, *_REFUSED, "graph"):
            raise UsageError(
                f"'{words[2]}' is none of the commands known after -f: graph, "
                f"{', '.join((*_TRANSLATIONS, *_OPERATORS))}."
            )
        words = words[2:]
        if words[0] == "graph":
            return words[1:]
    word = words[0] if words else ""
    if word in _REFUSED:
        raise UsageError(f"'{word}' is not done here. {_REFUSED[word]}.")
    if word in _OPERATORS:
        return ["operators", *words]
    if word in ("-V",):
        return ["--version"]
    return _TRANSLATIONS[word](words[1:], stack) if word in _TRANSLATIONS else words


class _Words(argparse.ArgumentParser):
    """The arguments of one command; wrong ones are a UsageError."""

    def __init__(self, command: str) -> None:
        super().__init__(prog=command, add_help=False, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}.")

    def paths(self) -> None:
        """The two sides and where the result goes, as version 26 calls them."""
        self.add_argument("-tp", "--target_path", required=True)
        self.add_argument("-gp", "--golden_path")
        self.add_argument("-o", "--output_path", nargs="?", default="./output", const="./output")

    def flags(self, *names: tuple[str, ...]) -> None:
        """Options without a value."""
        for one in names:
            self.add_argument(*one, action="store_true")


def _request(stack: ExitStack, content: Mapping[str, Any]) -> list[str]:
    """A compare.json of this content, named as the build takes it."""
    folder = stack.enter_context(TemporaryDirectory(prefix="msprobe_request_"))
    path = Path(folder) / "compare.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return ["-i", str(path)]


def _sides(target: str, golden: str | None, **more: Any) -> dict[str, Any]:
    sides = {"npu_path": target} | ({} if golden is None else {"bench_path": golden})
    # Relative paths count from where the user is.
    return {key: str(_directory(Path(path))) for key, path in sides.items()} | more


def _directory(path: Path) -> Path:
    """The rank that a dump.json belongs to, or the directory itself."""
    return (path.parent if path.name == "dump.json" else path).absolute()


def _graph(words: list[str], stack: ExitStack) -> list[str]:
    parser = _Words("graph_visualize")
    parser.paths()
    parser.add_argument("-lm", "--layer_mapping", nargs="?", const=True)
    parser.flags(
        ("-oc", "--overflow_check"),
        ("-fm", "--fuzzy_match"),
        ("-tensor_log", "--is_print_compare_log"),
        ("-progress_log", "--is_print_progress_log"),
    )
    for size in ("rank_size", "tp", "pp", "vpp"):
        parser.add_argument(f"--{size}", type=int, nargs="+")
    parser.add_argument("--order", nargs="+")
    parser.add_argument("--file_type", choices=("db", "json"), default="db")
    options = parser.parse_args(words)
    if options.file_type == "json":
        raise UsageError("--file_type json is not written; 'msprobe-build export' makes tables.")
    content = _sides(
        options.target_path,
        options.golden_path,
        is_print_compare_log=options.is_print_compare_log,
    )
    if options.rank_size:
        content["parallel_merge"] = _layouts(options)
    result = [*_request(stack, content), "-o", options.output_path]
    result += ["-oc"] if options.overflow_check else []
    result += ["-f"] if options.fuzzy_match else []
    return result + _mapping("-lm", options.layer_mapping)


def _layouts(options: argparse.Namespace) -> dict[str, Any]:
    """The split of each side: one number is of both."""
    sides = ("npu",) if options.golden_path is None else ("npu", "bench")
    result: dict[str, dict[str, Any]] = {side: {} for side in sides}
    for key in ("rank_size", "tp", "pp", "vpp", "order"):
        given = getattr(options, key)
        if given is None:
            continue
        if len(given) not in (1, len(sides)):
            raise UsageError(f"--{key} needs one value for each of {len(sides)} sides.")
        for place, side in enumerate(sides):
            result[side][key] = given[min(place, len(given) - 1)]
    return result


def _mapping(name: str, value: object) -> list[str]:
    if value is None:
        return []
    return [name] if value is True else [name, str(value)]


def _compare(words: list[str], stack: ExitStack) -> list[str]:
    if not {"-tp", "--target_path"} & set(words):  # as version 8 has it
        return _with_analysis(words)
    parser = _Words("compare")
    parser.paths()
    parser.add_argument("-m", "--mode", choices=("auto", *_OTHER_MODES), default="auto")
    parser.flags(
        ("--xlsx",),
        ("-fm", "--fuzzy_match"),
        ("-da", "--diff_analyze"),
        ("-tensor_log", "--is_print_compare_log"),
        ("--consistent_check",),
    )
    for short in ("cm/cell", "am/api", "lm/layer"):
        letters, word = short.split("/")
        parser.add_argument(f"-{letters}", f"--{word}_mapping", nargs="?", const=True)
    parser.add_argument("-dm", "--data_mapping")
    for place in ("rank", "step"):
        parser.add_argument(f"--{place}")
    parser.add_argument("--backend")
    parser.add_argument("--config")
    options, others = parser.parse_known_args(words)
    if options.mode != "auto" or others:
        what = f"-m {options.mode}" if options.mode != "auto" else others[0]
        raise UsageError(f"compare {what} is of Ascend's inference engines and is not done here.")
    if options.golden_path is None:
        raise UsageError("compare needs -gp, the path of the reference.")
    request = _request(stack, _sides(options.target_path, options.golden_path))
    mappings = [
        *_mapping("-lm", options.layer_mapping),
        *_mapping("-cm", options.cell_mapping),
        *_mapping("-am", options.api_mapping),
        *_mapping("-dm", options.data_mapping),
    ]
    fuzzy = ["-f"] if options.fuzzy_match else []
    if options.diff_analyze:  # where it begins: the verdict
        return [*request, "-o", options.output_path, *fuzzy, *mappings]
    form = ["--format", "xlsx" if options.xlsx else "csv"]
    places = [*_places("--rank", options.rank), *_places("--step", options.step)]
    return ["table", *request, "-o", options.output_path, *form, *fuzzy, *mappings, *places]


def _with_analysis(words: list[str]) -> list[str]:
    """A comparison of version 8: its analysis of where it begins is the verdict of a build."""
    if not {"-da", "--diff_analyze"} & set(words):
        return ["table", *words]
    return [word for word in words if word not in ("-da", "--diff_analyze")]


def _places(option: str, text: str | None) -> Iterable[str]:
    """``0,2-4`` as one option for each number."""
    for part in (text or "").replace(" ", "").split(","):
        low, _, high = part.partition("-")
        if not part:
            continue
        if not (low.isdecimal() and (high or low).isdecimal() and len(part) < 12):
            raise UsageError(f"{option} {text!r} is no list of numbers such as 0,2-4.")
        numbers = range(int(low), int(high or low) + 1)
        for number in numbers[:_MOST_PLACES]:
            yield from (option, str(number))


def _merge_result(words: list[str], _: ExitStack) -> list[str]:
    parser = _Words("merge_result")
    parser.add_argument("-i", "--input_dir", required=True)
    parser.add_argument("-o", "--output_dir", required=True)
    parser.add_argument("-config", "--config-path", required=True)
    options = parser.parse_args(words)
    files = sorted(Path(options.input_dir).glob("*.vis.db"))
    if len(files) != 1:
        raise UsageError(
            f"{options.input_dir} holds {len(files)} .vis.db; merge_result joins the ranks of one, "
            "which 'msprobe-build -i compare.json -o DIR' makes in place of tables of single ranks."
        )
    content = _yaml(Path(options.config_path))
    result = ["table", str(files[0]), "-o", options.output_dir, "--ranks"]
    for option, key in (("--call", "api"), ("--index", "compare_index")):
        for one in content.get(key) or []:
            result += [option, str(one)]
    return result


def _yaml(path: Path) -> dict[str, Any]:
    from msprobe_builder.files.text_files import parse_yaml, read_text_file

    content = parse_yaml(path, read_text_file(path, "give a YAML file"), "correct it there")
    if not isinstance(content, dict):
        raise UsageError(f"{path} holds no keys; write api and compare_index, each with a list.")
    return content


def _overflow(words: list[str], stack: ExitStack) -> list[str]:
    parser = _Words("overflow_check")
    parser.add_argument("-i", "--input_path", required=True)
    parser.add_argument("-o", "--output_path", default="./output")
    options = parser.parse_args(words)
    return [*_request(stack, _sides(options.input_path, None)), "-o", options.output_path, "-oc"]


def _trend(words: list[str], _: ExitStack) -> list[str]:
    parser = _Words("data2db")
    parser.add_argument("--db", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--format", choices=("auto", "dump", "monitor"), default="auto")
    parser.add_argument("--mapping")
    parser.add_argument("--micro_step", choices=("true", "false"), default="true")
    parser.add_argument("--process_num", type=int, default=1)
    options = parser.parse_args(words)
    if options.mapping is not None:
        raise UsageError("data2db --mapping is not needed: a trend keeps the names of modules.")
    return ["trend", options.data, "-o", options.db]


def _is_collected(path: str) -> bool:
    """Whether a file was collected: by its name, or, as the documents have none, what it is."""
    file = Path(path)
    if file.suffix:
        return file.suffix == ".zip"
    return file.is_file() and read_start(file, len(_ZIP))[0] == _ZIP


def _config_check(words: list[str], _: ExitStack) -> list[str]:
    """Collecting, or comparing of what the first path is: a collected file, or a checkpoint."""
    rest = [word for word in words if word not in (*_COLLECT, *_COMPARE, *_LOGS, *_VERIFY)]
    if any(word in _COLLECT for word in words):
        return ["config", "collect", *rest]
    for place, word in enumerate(words):
        behind = words[place + 1 : place + 3]
        if word in _COMPARE:
            is_collected = any(map(_is_collected, behind[:1]))
            return ["config", "compare", *rest] if is_collected else ["checkpoint", *rest]
        if word in _LOGS:  # the run under test comes first there
            left = [one for one in rest if one not in behind]
            return ["config", "compare", *reversed(behind), *left]
        if word in _VERIFY:
            if len(behind) < 2 or behind[1].startswith("-"):
                raise UsageError(f"{word} needs two files: a YAML of what must hold, and the log.")
            return ["config", "compare", *rest]
    raise UsageError("config_check needs -d to collect, or -c with two paths to compare.")


_TRANSLATIONS: dict[str, Callable[[list[str], ExitStack], list[str]]] = {
    "compare": _compare,
    "config_check": _config_check,
    "graph_visualize": _graph,
    "merge_result": _merge_result,
    "overflow_check": _overflow,
    "nan_analyze": _overflow,
    "data2db": _trend,
}
