"""Two configurations part by part: what differs, and whether the runs may be compared at all."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msprobe_builder.configuration.levels import ERROR, PASS, WARNING
from msprobe_builder.configuration.options import differing_options, files_beside
from msprobe_builder.configuration.pack import Pack, Values
from msprobe_builder.dump.names import without_wrappers
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.wording import ENGLISH, tell
from msprobe_builder.facts.words import STATISTIC

_ORDER = (PASS, WARNING, ERROR)
Row = tuple[object, ...]
Place = tuple[int, int]  # micro-step and rank

# Variables of one meaning on different devices; what they set changes numbers or their order.
_TWINS = (
    ("ASCEND_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING"),
    ("HCCL_ALGO", "NCCL_ALGO"),
    ("HCCL_DETERMINISTIC", "NCCL_DETERMINISTIC"),
    ("HCCL_INTRA_ROCE_ENABLE", "NCCL_IB_DISABLE"),
    ("INF_NAN_MODE_ENABLE", "INF_NAN_MODE_ENABLE"),
    ("CUBLAS_WORKSPACE_CONFIG", "CUBLAS_WORKSPACE_CONFIG"),
    ("NVIDIA_TF32_OVERRIDE", "NVIDIA_TF32_OVERRIDE"),
)
_PACKAGES = """
    accelerate apex datasets deepspeed flash-attn megatron megatron-core mindspeed mindspore
    mindspore-gl numpy peft torch torch-npu transformer-engine transformers triton
""".split()
_ENOUGH = 0.8  # of stack frames
_ROUNDING = 2e-6
_STATISTICS = ("max", "min", "mean", "norm")


@dataclass(frozen=True)
class Difference:
    """One thing that is not alike; a value is None on the side that lacks it."""

    level: str
    name: str  # of a variable, package, option, tensor or call
    bench: str | None
    other: str | None
    said: Fact

    @property
    def text(self) -> str:
        """The difference in words."""
        return tell(self.said)


@dataclass(frozen=True)
class Sheet:
    """One part: columns, rows, and whether it passes.

    Of ``compared`` entries rows are those that differ, or all where the reader wants numbers.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    compared: int
    differences: tuple[Difference, ...]  # the worst first

    @property
    def outcome(self) -> str:
        """The level of the worst difference."""
        return self.differences[0].level if self.differences else PASS

    @property
    def first(self) -> Fact | None:
        """The first of the worst differences, None when it passes."""
        return self.differences[0].said if self.differences else None


@dataclass(frozen=True)
class ConfigurationComparison:
    """Every part that both sides have."""

    sheets: tuple[Sheet, ...]
    missing: tuple[str, ...]  # parts that one side has alone

    @property
    def outcome(self) -> str:
        """The worst of all parts but random calls, which need not pass."""
        return max(
            (one.outcome for one in self.sheets if one.name != "random"),
            key=_ORDER.index,
            default=PASS,
        )


def compare_packs(bench: Pack, other: Pack) -> ConfigurationComparison:
    """Compare what both zip files hold; ``bench`` is the reference."""
    parts: list[tuple[str, object, object, Callable[[Any, Any], Sheet]]] = [
        ("env", _whole(bench.variables), _whole(other.variables), _variables),
        ("pip", bench.packages, other.packages, _packages),
        ("hyperparameters", bench.options, other.options, _options),
        ("dataset", bench.data, other.data, _data),
        ("weights", bench.weights, other.weights, _weights),
        ("random", bench.random, other.random, _random),
    ]
    sheets = [make(a, b) for _, a, b, make in parts if _is_there(a) and _is_there(b)]
    missing = [name for name, a, b, _ in parts if _is_there(a) != _is_there(b)]
    return ConfigurationComparison(tuple(sheets), tuple(missing))


def _is_there(part: object) -> bool:
    return part is not None and part != {}


def _whole(variables: Mapping[str, str] | None) -> dict[str, str] | None:
    """The environment with every known variable, so that none set is told from none collected."""
    return None if variables is None else {"": "", **variables}


def _sheet(
    name: str, columns: str, rows: list[Row], compared: int, found: Iterable[Difference]
) -> Sheet:
    wrong = [one for one in found if one.level != PASS]
    wrong.sort(key=lambda one: -_ORDER.index(one.level))
    return Sheet(name, tuple(columns.split()), tuple(rows), compared, tuple(wrong))


def _variables(bench: Mapping[str, str], other: Mapping[str, str]) -> Sheet:
    rows: list[Row] = []
    found = []
    seen: set[str] = set()
    pairs = [*_TWINS, *((name, name) for name in sorted({*bench, *other}))]
    for names in pairs:
        own = [next((name for name in names if name in side), None) for side in (bench, other)]
        if seen & set(names) or own == [None, None]:
            continue
        seen.update(names)
        a, b = (
            None if name is None else side[name]
            for name, side in zip(own, (bench, other), strict=True)
        )
        if a == b:
            continue
        is_known = names in _TWINS
        level = ERROR if is_known and None not in (a, b) else WARNING
        rows.append((own[0] or "", own[1] or "", a, b, level))
        name = own[1] or own[0] or ""
        said = fact("configuration.differs", name=name, npu=_said(b), bench=_said(a))
        both = " / ".join(dict.fromkeys(one for one in reversed(own) if one))
        found.append(Difference(level, both, a, b, said))
    columns = "bench_env_name cmp_env_name bench_value cmp_value level"
    return _sheet("env", columns, rows, len({*bench, *other} - {""}), found)


def _alone(level: str, name: Fact | str, in_bench: bool) -> Difference:
    """What one side has alone."""
    bench, other = ("there", None) if in_bench else (None, "there")
    said = fact("configuration.one_pack", name=name)
    return Difference(level, tell(name, ENGLISH), bench, other, said)


def _shown(value: object) -> str | None:
    return None if value is None else str(value)


def _said(value: object) -> Fact | str:
    return fact("configuration.not_set") if value is None else repr(value)


def _packages(bench: Mapping[str, str], other: Mapping[str, str]) -> Sheet:
    rows: list[Row] = []
    found = []
    compared = 0
    for name in _PACKAGES:
        a, b = (side.get(name, side.get(name.replace("-", "_"))) for side in (bench, other))
        compared += (a, b) != (None, None)
        if a != b:
            level = ERROR if None not in (a, b) else WARNING
            rows.append((name, a, b, level))
            of_npu, of_bench = (one or fact("configuration.not_installed") for one in (b, a))
            said = fact("configuration.differs", name=name, npu=of_npu, bench=of_bench)
            found.append(Difference(level, name, a, b, said))
    return _sheet("pip", "package bench_version cmp_version level", rows, compared, found)


def _options(bench: Mapping[str, Values], other: Mapping[str, Values]) -> Sheet:
    rows: list[Row] = []
    found = []
    pairs = files_beside(bench, other)
    for first, second in pairs:
        for row in differing_options(bench[first], other[second]):
            name, b_name, a, b, matched, level = row
            rows.append((second, name, b_name, a, b, tell(matched), level))
            said = fact(
                "configuration.option_differs",
                name=b_name or name,
                npu=_said(b),
                bench=_said(a),
                matched=matched,
            )
            found.append(Difference(level, b_name or name, _shown(a), _shown(b), said))
    for own, place in ((bench, 0), (other, 1)):
        for name in sorted(own.keys() - {pair[place] for pair in pairs}):
            rows.append((name, "", "", None, None, "", WARNING))
            found.append(_alone(WARNING, name, place == 0))
    columns = "file_name bench_para cmp_para bench_value cmp_value matched_with level"
    compared = sum(len({*bench[first], *other[second]}) for first, second in pairs)
    return _sheet("hyperparameters", columns, rows, compared, found)


def _data(bench: Mapping[Place, Values], other: Mapping[Place, Values]) -> Sheet:
    return _tensors("dataset", "tag", bench, other)


def _weights(bench: Mapping[Place, Values], other: Mapping[Place, Values]) -> Sheet:
    """Without wrappers where names differ: DDP has ``module.`` before all of them."""
    both = bench.keys() & other.keys()
    if any(bench[place].keys() != other[place].keys() for place in both):
        bench, other = (
            {place: _unwrapped(values) for place, values in side.items()} for side in (bench, other)
        )
    return _tensors("weights", "weight_name", bench, other)


def _unwrapped(values: Values) -> Values:
    found = {without_wrappers(name): value for name, value in values.items()}
    return found if len(found) == len(values) else values


def _tensors(
    name: str,
    column: str,
    bench: Mapping[Place, Values],
    other: Mapping[Place, Values],
) -> Sheet:
    rows: list[Row] = []
    found = []
    bad = 0
    for step, rank in sorted({*bench, *other}):
        where = fact("configuration.place", step=step, rank=rank)
        if (step, rank) not in bench or (step, rank) not in other:
            found.append(_alone(WARNING, where, (step, rank) in bench))
            continue
        a, b = (dict(_statistics(side[step, rank])) for side in (bench, other))
        for tag in [*a, *(one for one in b if one not in a)]:
            named = fact("configuration.tensor", name=tag, place=where)
            if tag not in a or tag not in b:
                rows.append((step, rank, tag, False, *[None] * 4))
                found.append(_alone(ERROR, named, tag in a))
                continue
            if any(math.isnan(x) and math.isnan(y) for x, y in zip(a[tag], b[tag], strict=True)):
                said = fact("configuration.tensor_bad", name=named)
                found.append(Difference(WARNING, tell(named, ENGLISH), "NaN", "NaN", said))
                bad += 1
            apart = [_relative(x, y) for x, y in zip(a[tag], b[tag], strict=True)]
            is_equal = all(value == 0 for value in apart)
            rows.append((step, rank, tag, is_equal, *apart))
            if not is_equal:
                worst = _worst(a[tag], b[tag])
                value, b_value = (f"{_STATISTICS[worst]} {one[tag][worst]:.6g}" for one in (a, b))
                is_rounding = _is_rounding(a[tag], b[tag])
                code = "configuration.tensor_differs"
                if is_rounding:
                    code = "configuration.tensor_order"
                numbers = {"npu": b[tag][worst], "bench": a[tag][worst]}
                said = fact(code, name=named, statistic=STATISTIC[worst], **numbers)
                level = WARNING if is_rounding else ERROR
                found.append(Difference(level, tell(named, ENGLISH), value, b_value, said))
    columns = f"step rank {column} equal " + " ".join(f"{one}_relative_diff" for one in _STATISTICS)
    return _sheet(name, columns, rows, len(rows) - bad, found)


def _worst(a: tuple[float, ...], b: tuple[float, ...]) -> int:
    """Which statistic differs most for its size; a mean near zero has that of the elements."""
    scales = [abs(one) for one in a]
    scales[2] = max(scales[:2])
    apart = [
        0.0 if _relative(x, y) == 0 else abs(x - y) / scale if scale else math.inf
        for x, y, scale in zip(a, b, scales, strict=True)
    ]
    return max(range(len(apart)), key=lambda one: _size(apart[one]))


def _is_rounding(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    """Equal ends, and a mean and norm as two devices or tools sum the same numbers in float32."""
    largest = max(abs(a[0]), abs(a[1]))
    means, norms = abs(a[2] - b[2]), abs(a[3] - b[3])
    return a[:2] == b[:2] and means <= _ROUNDING * largest and norms <= _ROUNDING * a[3]


def _statistics(content: object, prefix: str = "") -> Iterable[tuple[str, tuple[float, ...]]]:
    """Every tensor's four numbers by its path."""
    if not isinstance(content, Mapping | list):
        return
    if isinstance(content, Mapping) and set(_STATISTICS) <= content.keys():
        yield prefix, tuple(_number(content[one]) for one in _STATISTICS)
        return
    items = content.items() if isinstance(content, Mapping) else enumerate(content)
    for key, value in items:
        yield from _statistics(value, f"{prefix}.{key}" if prefix else str(key))


def _number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return math.nan


def _size(apart: float) -> float:
    return math.inf if math.isnan(apart) else apart


def _relative(a: float, b: float) -> float:
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    return abs(a - b) / abs(a) if a and math.isfinite(a) else math.inf


def _random(bench: Mapping[int, Values], other: Mapping[int, Values]) -> Sheet:
    rows: list[Row] = []
    found = []
    for rank in sorted(bench.keys() & other.keys()):
        for operator in sorted({*bench[rank], *other[rank]}):
            calls = [_calls(side[rank].get(operator)) for side in (bench, other)]
            for a_stack, a_count, b_stack, b_count in _beside(*calls):
                is_equal = a_count == b_count
                rows.append((operator, rank, a_stack, b_stack, a_count, b_count, is_equal))
                if not is_equal:
                    said = fact(
                        "configuration.calls",
                        name=operator,
                        npu=b_count,
                        bench=a_count,
                        rank=rank,
                        stack=b_stack[:80] or a_stack[:80],
                    )
                    name = f"{operator} of rank {rank}"
                    found.append(Difference(ERROR, name, str(a_count), str(b_count), said))
    columns = "op rank bench_stack cmp_stack bench_count cmp_count check_result"
    return _sheet("random", columns, rows, len(rows), found)


def _calls(content: object) -> list[tuple[str, int]]:
    entries = content if isinstance(content, list) else []
    return [
        (_stack(one.get("stack")), int(one.get("count", 0)))
        for one in entries
        if isinstance(one, Mapping)
    ]


def _stack(content: object) -> str:
    return "\n".join(map(str, content)) if isinstance(content, list) else str(content)


def _beside(
    bench: list[tuple[str, int]], other: list[tuple[str, int]]
) -> Iterable[tuple[str, int, str, int]]:
    """Calls from similar places beside each other."""
    left = list(other)
    for stack, count in bench:
        scored = [(difflib.SequenceMatcher(None, stack, one).ratio(), one, n) for one, n in left]
        score, found, number = max(scored, default=(0.0, "", 0))
        if score >= _ENOUGH:
            left.remove((found, number))
            yield stack, count, found, number
        else:
            yield stack, count, "", 0
    for stack, count in left:
        yield "", 0, stack, count
