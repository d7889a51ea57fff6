"""compare.json: what to build."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.options import DEFAULT_OPTIONS, BuildOptions
from msprobe_builder.dump.source import Dumps
from msprobe_builder.files.text_files import distinct_keys, read_text_file

if TYPE_CHECKING:
    from msprobe_builder.merge.detect import AutoLayout
    from msprobe_builder.merge.ranks.layout import ParallelLayout

_KEYS = (
    *("npu_path", "bench_path", "noise_path", "stack_path"),
    *("config", "is_print_compare_log", "parallel_merge"),
)
# A comment, or a string that must be stepped over because it may hold comment signs.
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|#[^\n]*|//[^\n]*')


@dataclass(frozen=True)
class BuildConfig:
    """One build; without ``bench_path`` the dump is shown on its own.

    In place of a path each side may be a dump in memory, or several by step and rank. With
    layouts the ranks of each side are merged into whole models first. ``noise_path`` is the
    reference recorded a second time, or perturbed: what may differ without a fault.
    ``npu_config`` and ``bench_config`` are zip files of ``msprobe-build config collect``.
    ``names`` is what people call the sides, else the folders' names stand for them.
    """

    npu_path: Dumps
    bench_path: Dumps | None = None
    print_compare_log: bool = True
    options: BuildOptions = DEFAULT_OPTIONS
    npu_layout: ParallelLayout | AutoLayout | None = None
    bench_layout: ParallelLayout | AutoLayout | None = None
    noise_path: Dumps | None = None
    npu_config: Path | None = None
    bench_config: Path | None = None
    names: tuple[str, ...] = ()


def read_config(path: Path) -> BuildConfig:
    """Read compare.json, with ``#`` and ``//`` comments allowed.

    Relative paths count from the working directory, else from the file's own directory.
    Raises UsageError naming file, key and remedy.
    """
    text = read_text_file(path, "give the path of a compare.json with -i")
    try:
        content = json.loads(
            _COMMENT.sub(_keep_strings, text), object_pairs_hook=partial(distinct_keys, str(path))
        )
    except UsageError:
        raise
    except (ValueError, RecursionError) as error:
        where = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise UsageError(f"{path} is not valid JSON{where}; correct it there.") from error
    if not isinstance(content, dict):
        raise UsageError(f"{path} must hold a JSON object with the key 'npu_path'.")
    _check_keys(content, path)
    print_compare_log = content.get("is_print_compare_log", True)
    if not isinstance(print_compare_log, bool):
        raise UsageError(f"{path}: 'is_print_compare_log' must be true or false.")
    npu_path = _path(content, "npu_path", path)
    if npu_path is None:
        raise UsageError(f"{path} lacks the key 'npu_path'; add the directory of the dump to show.")
    bench_path = _path(content, "bench_path", path)
    noise_path = _path(content, "noise_path", path)
    if noise_path is not None and bench_path is None:
        raise UsageError(
            f"{path} has 'noise_path', a second run of the reference, without a 'bench_path'; "
            "add the reference or remove it."
        )
    layouts = _layouts(content, path, is_comparison=bench_path is not None)
    return BuildConfig(
        npu_path,
        bench_path,
        print_compare_log,
        DEFAULT_OPTIONS,
        *layouts,
        noise_path,
        *_configurations(content, path, is_comparison=bench_path is not None),
    )


def _keep_strings(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else ""


def _check_keys(content: dict[str, Any], path: Path) -> None:
    for key in content:
        if key in _KEYS:
            continue
        near = difflib.get_close_matches(key, _KEYS, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(_KEYS)}."
        raise UsageError(f"{path} has the unknown key '{key}'; {hint}")


def _layouts(
    content: dict[str, Any], path: Path, *, is_comparison: bool
) -> tuple[ParallelLayout | AutoLayout | None, ParallelLayout | AutoLayout | None]:
    """The declared layouts of both sides, None without ``parallel_merge``."""
    merge = content.get("parallel_merge")
    if merge is None:
        return None, None
    where = f"{path}: parallel_merge"
    if merge == "auto":
        merge = {"npu": "auto", "bench": "auto"} if is_comparison else {"npu": "auto"}
    if not isinstance(merge, dict) or set(merge) - {"npu", "bench"}:
        raise UsageError(
            f"{where} must be \"auto\", or an object with the keys 'npu' and, to compare, 'bench'."
        )
    for side in ("npu", "bench") if is_comparison else ("npu",):
        if side not in merge:
            raise UsageError(f"{where} lacks '{side}'; add its rank_size, tp and pp, or \"auto\".")
    if "bench" in merge and not is_comparison:
        raise UsageError(f"{where} has 'bench' without a bench_path; add the path or remove it.")
    from msprobe_builder.merge.detect import parse_side

    npu = parse_side(merge["npu"], f"{where}.npu")
    bench = parse_side(merge["bench"], f"{where}.bench") if is_comparison else None
    return npu, bench


def _configurations(
    content: dict[str, Any], path: Path, *, is_comparison: bool
) -> tuple[Path | None, Path | None]:
    """The zip files of both sides, None without ``config``."""
    packs = content.get("config")
    if packs is None:
        return None, None
    where = f"{path}: config"
    if not isinstance(packs, dict) or set(packs) != {"npu", "bench"}:
        raise UsageError(
            f"{where} must be an object with the keys 'npu' and 'bench', each a zip file of "
            "'msprobe-build config collect'."
        )
    if not is_comparison:
        raise UsageError(f"{where} compares two runs, but there is no bench_path; add the path.")
    sides = []
    for side in ("npu", "bench"):
        pack = _path(packs, side, path, f"{where}.{side}", "zip file of 'config collect'")
        if pack is None or not pack.is_file():
            raise UsageError(f"{where}.{side} {pack or 'is empty'}: no such file; correct it.")
        sides.append(pack)
    return sides[0], sides[1]


def _path(
    content: dict[str, Any],
    key: str,
    file: Path,
    where: str | None = None,
    kind: str = "directory",
) -> Path | None:
    value = content.get(key)
    named = f"{file}: '{key}'" if where is None else where
    if value is None or value == "":
        return None
    if not isinstance(value, str) or "\0" in value:
        raise UsageError(f"{named} must be the path of a {kind}.")
    try:
        given = Path(value).expanduser()
        if given.name == "dump.json":  # as the accuracy comparison's configuration has it
            given = given.parent
        if given.is_absolute() or given.exists():
            return given
        beside = file.parent / given
        return beside if beside.exists() else given
    except (OSError, RuntimeError, UnicodeEncodeError) as error:
        # Too long for the system, or ~ of nobody.
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{named} is no path ({why}); correct it.") from error
