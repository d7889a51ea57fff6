"""Trees of arrays that were saved under tags, ``data/{tag}/step{S}/rank{R}/micro_step{M}``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf, prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.publish import written_together
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.metrics.tensor_file import (
    Index,
    StoredTensor,
    TensorFileError,
    open_tensor,
    pieces,
)
from msprobe_builder.tables.columns import SAVED_ERRORS, SAVED_NAMES, Columns
from msprobe_builder.tables.rows import Cell, Row
from msprobe_builder.tables.verdicts import UNKNOWN
from msprobe_builder.tables.write import table_file

_LEVELS = tuple(re.compile(rf"{word}([0-9]{{1,9}})?\Z") for word in ("step", "rank", "micro_step"))
_THOUSANDTH, _HUNDREDTH = 0.001, 0.01
Place = tuple[int, int, int]  # step, rank, micro-step


@dataclass(frozen=True)
class SavedTable:
    """The table of one tag; ``first`` is the first place where the two sides are not equal."""

    tag: str
    path: Path
    rows: int
    different: int
    first: tuple[int, int, int, str] | None  # step, rank, micro-step, id
    unreadable: tuple[Fact, ...]


@dataclass(frozen=True)
class _Errors:
    """What the columns say of two arrays, shares as fractions."""

    same: float
    first_mismatch: int | None
    absolute: float
    relative: float
    within_thousandth: float
    within_hundredth: float


def is_saved_tree(path: Path) -> bool:
    """Whether ``path`` is the root of such a tree."""
    return any(True for tag in _directories(path / "data") for _ in _places(tag))


def compare_saved_trees(npu: Path, bench: Path, output: Path, form: str) -> list[SavedTable]:
    """Compare tag by tag: a table ``{tag}.{form}`` each, a line per array of either side; or none.

    BuildError when a tree cannot be read, or the two have no tag in common.
    """
    sides = [{tag.name: tag for tag in _directories(root / "data")} for root in (npu, bench)]
    if not sides[0].keys() & sides[1].keys():
        raise BuildError(f"{npu} and {bench} have no tag in common below data; compare one run.")
    with written_together(output) as folder:
        tables = [
            _compare(tag, tuple(side.get(tag) for side in sides), folder / f"{tag}.{form}")
            for tag in sorted(sides[0].keys() | sides[1].keys())
        ]
    return [replace(one, path=output / one.path.name) for one in tables]


def _compare(tag: str, roots: tuple[Path | None, ...], path: Path) -> SavedTable:
    arrays = [{} if root is None else dict(_arrays(root, tag)) for root in roots]
    count = different = 0
    first: tuple[int, int, int, str] | None = None
    unreadable: list[Fact] = []
    columns = Columns(SAVED_NAMES, SAVED_ERRORS[0], has_stack=False, has_own=False)
    with table_file(path, columns) as write:
        for place, name in sorted(arrays[0].keys() | arrays[1].keys(), key=_order):
            files = [side.get((place, name)) for side in arrays]
            shapes, errors, problems = _measured(files)
            unreadable += problems
            cells = [*place, int(name) if name.isdigit() else name, *shapes, *_cells(errors)]
            is_bad = errors is None or errors.same < 1
            write(Row(cells, 0, is_bad=is_bad))
            count += 1
            different += is_bad
            if is_bad and first is None:
                first = (*place, name)
    return SavedTable(tag, path, count, different, first, tuple(unreadable))


def _measured(files: list[Path | None]) -> tuple[list[str], _Errors | None, list[Fact]]:
    opened: list[StoredTensor | None] = []
    problems = []
    for file in files:
        opened.append(None)
        try:
            if file is not None:
                opened[-1] = open_tensor(file.parent, file.name)
        except TensorFileError as error:
            problems.append(fact("table.array_left_out", file=str(file), reason=error.reason))
    shapes = [UNKNOWN if one is None else str(list(one.shape)) for one in opened]
    one, other = opened
    errors = None if one is None or other is None else _errors(one, other)
    return shapes, errors, problems


def _cells(errors: _Errors | None) -> list[Cell]:
    if errors is None:
        return [UNKNOWN] * len(SAVED_ERRORS)
    index = "" if errors.first_mismatch is None else errors.first_mismatch
    shares = [100 * one for one in (errors.within_thousandth, errors.within_hundredth)]
    numbers = [one if one < inf else str(one) for one in (errors.absolute, errors.relative)]
    return [100 * errors.same, index, *numbers, *shares]


def _errors(one: StoredTensor, other: StoredTensor) -> _Errors:
    """Of the part that both have: to the smaller size in each dimension, or flat where the
    numbers of dimensions differ. NaN equals NaN, and is infinitely far from anything else."""
    if len(one.shape) != len(other.shape):
        one, other = (
            StoredTensor((prod(side.shape),), side.content.reshape(-1)) for side in (one, other)
        )
    shape = tuple(map(min, one.shape, other.shape))
    total = prod(shape)
    if not total:
        return _Errors(1.0, None, 0.0, 0.0, 1.0, 1.0)
    same = thousandth = hundredth = done = 0
    first: int | None = None
    absolute = relative = 0.0
    for index in pieces(shape):
        whole = _within(index, shape)
        left, right = (side.part(whole).reshape(-1) for side in (one, other))
        is_same, error, size = _elements(left, right)
        if first is None and not is_same.all():
            first = done + int(np.argmin(is_same))
        done += len(is_same)
        same += int(is_same.sum())
        absolute = max(absolute, float(error.max()))
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(is_same, 0.0, error / size)
            ratio[np.isnan(ratio)] = inf  # an infinity against something else
        relative = max(relative, float(ratio.max()))
        thousandth += int((ratio <= _THOUSANDTH).sum())
        hundredth += int((ratio <= _HUNDREDTH).sum())
    return _Errors(same / total, first, absolute, relative, thousandth / total, hundredth / total)


def _elements(
    left: NDArray[np.generic], right: NDArray[np.generic]
) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Whether elements are equal, how far apart they are, and the larger magnitude."""
    with np.errstate(invalid="ignore", over="ignore"):
        wide = [np.asarray(side, dtype=np.result_type(side, np.float64)) for side in (left, right)]
        is_same = (left == right) | (np.isnan(wide[0]) & np.isnan(wide[1]))
        error = np.where(is_same, 0.0, np.abs(wide[0] - wide[1]))
        error[np.isnan(error)] = inf
        return is_same, error, np.maximum(np.abs(wide[0]), np.abs(wide[1]))


def _within(index: Index, shape: tuple[int, ...]) -> Index:
    """An index of the common part as one of a larger array."""
    own = () if index == (...,) else index
    cut = (  # a slice may end behind the common part
        slice(one.start, min(one.stop, size)) if isinstance(one, slice) else one
        for one, size in zip(own, shape, strict=False)
    )
    return (*cut, *(slice(0, size) for size in shape[len(own) :]))


def _order(key: tuple[Place, str]) -> tuple[Place, int, str]:
    place, name = key
    return place, int(name) if name.isdigit() else -1, name


def _arrays(root: Path, tag: str) -> Iterator[tuple[tuple[Place, str], Path]]:
    for place, directory in _places(root):
        for file in _entries(directory):
            if file.suffix == ".npy" and file.name.startswith(f"{tag}."):
                name = file.stem.removeprefix(tag).removeprefix(".")
                yield (place, name or "0"), file


def _places(tag: Path) -> Iterator[tuple[Place, Path]]:
    for step, of_step in _numbered(tag, 0):
        for rank, of_rank in _numbered(of_step, 1):
            for micro_step, directory in _numbered(of_rank, 2):
                yield (step, rank, micro_step), directory


def _numbered(directory: Path, level: int) -> Iterator[tuple[int, Path]]:
    for entry in _directories(directory):
        found = _LEVELS[level].match(entry.name)
        if found:
            yield int(found[1] or 0), entry


def _directories(directory: Path) -> list[Path]:
    return [entry for entry in _entries(directory) if entry.is_dir()]


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise BuildError(f"Cannot read {directory}: {error.strerror}.") from error
