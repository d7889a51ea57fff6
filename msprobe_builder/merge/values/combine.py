"""The statistics of one tensor from those of its parts on the tensor-parallel ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Disagreement
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameter_columns import ALL_MISSING
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.shapes import parse_shape
from msprobe_builder.facts.fact import Fact, Facts, fact
from msprobe_builder.graph.assembly import Assembly
from msprobe_builder.graph.floating import epsilons
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.provenance import Factors, Provenance, Shares
from msprobe_builder.merge.flow.dimensions import Cut
from msprobe_builder.merge.flow.share import Share, State, because
from msprobe_builder.merge.values.agreement import (
    apart,
    distances,
    recorded_by_all,
    tolerances,
)
from msprobe_builder.merge.values.blocks import Orders, told_of_orders
from msprobe_builder.merge.values.data import assemblies, checksums, is_one_file
from msprobe_builder.merge.values.not_finite import not_finite

NO_ORDERS: Mapping[int, Orders] = MappingProxyType({})
_DEPENDS = fact("unmerged.depends")
_REASONS = {
    Share.REPLICA: fact("unmerged.not_on_all"),
    Share.SHARD: fact("unmerged.cut_unknown"),
    Share.PARTIAL: fact("unmerged.partial"),
    Share.LOCAL: _DEPENDS,
    Share.UNKNOWN: _DEPENDS,
}
_NO_CHECKSUM = fact("unmerged.checksum")
_WEIGHTS = (Section.PARAMETERS, Section.PARAMETERS_GRAD)


@dataclass(frozen=True)
class Combined:
    """The merged table, how each merged row was made, and the replicas that disagree."""

    table: ParameterTable
    provenance: Provenance
    drifted: list[int]


def combine(
    tables: Sequence[ParameterTable],
    states: Sequence[State],
    texts: Texts,
    ranks: Sequence[int],
    parts: Sequence[Mapping[int, Assembly]] = (),
    orders: Mapping[int, Orders] = NO_ORDERS,
) -> Combined:
    """Combine equal rows of all ranks by their state.

    ``parts`` has by row the files of each rank, ``orders`` how their elements are ordered where
    that is not plain.

    Max of max, min of min, mean weighted by elements, norm as root of summed squares; a partial
    tensor takes the statistics of the reduction's result; what is not known is marked missing.
    """
    first = tables[0]
    stack = np.array([table.statistics for table in tables])  # (rank, statistic, row)
    missing = first.missing.copy()
    for table in tables[1:]:
        missing |= table.missing
    statistics = first.statistics.copy()
    numel, shape_id = first.numel.copy(), first.shape_id.copy()
    share = np.array([state.share for state in states], dtype=np.int64)
    tensors = first.is_tensor
    recipes: dict[int, Facts] = {}

    files_known = bool(parts) and bool(parts[0])
    shards = np.flatnonzero((share == Share.SHARD) & tensors)
    elements = np.array([table.numel[shards] for table in tables])
    statistics[:, shards] = combined_shards(stack[:, :, shards], elements)
    numel[shards] = elements.sum(axis=0)
    shape_ids = np.array([table.shape_id for table in tables])
    wholes: dict[tuple[tuple[int, ...], Cut | None], tuple[int, Fact]] = {}
    for row in shards.tolist():
        ids = tuple(shape_ids[:, row].tolist())
        known = ids, states[row].cut
        if known not in wholes:
            wholes[known] = _whole_shape(*known, texts)
        shape_id[row], along = wholes[known]
        told = fact(
            "recipe.shards",
            ranks=list(ranks),
            along=along,
            order=told_of_orders(orders.get(row, ())),
            statistics=_combined(stack[:, :, row], statistics[:, row], int(missing[row])),
        )
        recipes[row] = (told,)
        if not files_known and first.section[row] == Section.PARAMETERS:
            recipes[row] += (fact("recipe.no_order"),)

    for row in np.flatnonzero((share == Share.PARTIAL) & tensors).tolist():
        result = states[row].reduced
        if result < 0:
            missing[row] = ALL_MISSING
            recipes[row] = (_REASONS[Share.PARTIAL],)
        else:
            statistics[:, row] = statistics[:, result]
            missing[row] = missing[result]
            recipes[row] = (fact("recipe.partial"),)
    open_rows = ((share == Share.LOCAL) | (share == Share.UNKNOWN)) & tensors
    missing[open_rows] = ALL_MISSING
    for row in np.flatnonzero(open_rows).tolist():
        recipes[row] = (_DEPENDS,)
        if share[row] == Share.UNKNOWN:
            shape_id[row], numel[row] = -1, np.nan
    statistics[:, missing == ALL_MISSING] = np.nan

    replicas = np.flatnonzero((share == Share.REPLICA) & tensors)
    tolerance = tolerances(epsilons(first.dtype_id, texts))
    seen = recorded_by_all(stack[:, :, replicas], missing[replicas])
    away = distances(seen, seen[:1]).max(axis=0)
    drifted = replicas[away > tolerance[replicas]].tolist()
    files = assemblies(tables, states, parts, texts, orders)
    for row in files.keys() & drifted:  # that they differ is known, no need to compare elements
        files[row] = replace(files[row], parts=files[row].parts[:1])
    md5, differing = checksums(tables, states)
    table = replace(
        first,
        statistics=statistics,
        missing=missing,
        numel=numel,
        shape_id=shape_id,
        md5=md5,
        file={
            row: first.file[row] for row in files if row in first.file and is_one_file(files[row])
        },
    )
    unknown = _unknown(table, first, states, parts[0] if parts else {}, files)
    for row in replicas.tolist():
        recipes[row] = (fact("recipe.alike", ranks=list(ranks)),)
    for row in drifted:
        recipes[row] = (fact("recipe.different", ranks=list(ranks), shown=ranks[0]),)
    for row in first.md5.keys() - md5.keys():
        recipes[row] = (*recipes.get(row, ()), unknown[row])
    for row, recipe in recipes.items():
        reason = states[row].reason
        if reason is not None:
            recipes[row] = (*recipe, because([reason]))
    different = sorted({*drifted, *differing})
    return Combined(
        table,
        Provenance(
            recipes,
            files,
            unknown,
            apart={
                row: apart(
                    recorded_by_all(stack[:, :, [row]], missing[[row]])[:, :, 0],
                    ranks,
                    Disagreement.REPLICA,
                    float(tolerance[row]),
                    _other_checksums(tables, row) if row in differing else (),
                )
                for row in different
            },
            shares={
                row: Shares(tuple(ranks), stack[:, :, row], elements[:, place])
                for place, row in enumerate(shards.tolist())
                if first.section[row] in _WEIGHTS
            },
            factors=_factors(tables, texts, ranks),
            singles=_singles(tables, states),
            not_finite=not_finite(tables, table, ranks),
        ),
        different,
    )


def _singles(
    tables: Sequence[ParameterTable], states: Sequence[State]
) -> dict[int, tuple[float, ...]]:
    """The single numbers of the ranks where each has its own, of which no whole is made."""
    values = np.array([table.statistics[0] for table in tables])
    is_single = (tables[0].numel == 1) & np.isfinite(values).all(axis=0) & tables[0].is_tensor
    rows = np.flatnonzero(is_single).tolist()
    return {row: tuple(values[:, row].tolist()) for row in rows if states[row].share is Share.LOCAL}


def _factors(
    tables: Sequence[ParameterTable], texts: Texts, ranks: Sequence[int]
) -> dict[int, Factors]:
    """By row of an argument that ranks give as another number, such as a scale: who gives which.

    Whole numbers tell places and counts, which are each rank's own. Of tensors it is the type.
    """
    first, values = tables[0], texts.values
    types = np.array([table.dtype_id for table in tables])
    stack = np.where(first.is_tensor, types, [table.value_id for table in tables])
    differ = (stack != stack[0]).any(axis=0) & (first.section == Section.INPUT)
    found = {}
    for row in np.flatnonzero(differ).tolist():
        kinds = {values[int(table.type_id[row])] for table in tables if table.type_id[row] >= 0}
        if not first.is_tensor[row] and "float" not in kinds:
            continue
        own = [values[one] if one >= 0 else "None" for one in stack[:, row].tolist()]
        of_value: dict[str, list[int]] = {}
        for rank, value in zip(ranks, own, strict=True):
            of_value.setdefault(value, []).append(rank)
        found[row] = Factors(tuple((value, tuple(those)) for value, those in of_value.items()))
    return found


def _other_checksums(tables: Sequence[ParameterTable], row: int) -> list[Fact | None]:
    shown = tables[0].md5[row].lower()
    own = [table.md5.get(row, "") for table in tables]
    return [_checksum(one) if one.lower() != shown else None for one in own]


def _checksum(checksum: str) -> Fact:
    return fact("apart.checksum", checksum=checksum) if checksum else fact("apart.no_checksum")


def _unknown(
    table: ParameterTable,
    first: ParameterTable,
    states: Sequence[State],
    dumped: Mapping[int, Assembly],
    files: dict[int, Assembly],
) -> dict[int, Fact]:
    """Why rows cannot be compared: their statistics, their checksum or their data are unknown."""
    found = {}
    for row in np.flatnonzero((table.missing == ALL_MISSING) & table.is_tensor).tolist():
        if states[row].share is not Share.REPLICA and not dumped:
            found[row] = _REASONS[states[row].share]
    for row in first.md5.keys() - table.md5.keys():
        share = states[row].share
        is_whole = share is Share.SHARD or states[row].reduced >= 0
        found[row] = _NO_CHECKSUM if is_whole else _REASONS[share]
        if share is Share.REPLICA:
            found[row] = fact("unmerged.checksums_differ")
    for row in dumped.keys() - files.keys():
        found[row] = _REASONS[states[row].share]
    return found


def combined_shards(
    parts: NDArray[np.float64], elements: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Statistics of shape (4, n) from parts of shape (ranks, 4, n)."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        weight = elements / elements.sum(axis=0)
        # Parts are scaled before squaring, so that huge norms do not overflow.
        scale = np.where(np.isfinite(parts[:, 3]), np.abs(parts[:, 3]), 1.0).max(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        norm = scale * np.sqrt(np.square(parts[:, 3] / scale).sum(axis=0))
        return np.array(
            [
                parts[:, 0].max(axis=0),
                parts[:, 1].min(axis=0),
                (parts[:, 2] * weight).sum(axis=0),
                norm,
            ]
        )


def _whole_shape(ids: Sequence[int], cut: Cut | None, texts: Texts) -> tuple[int, Fact]:
    """The id of the whole's shape from those of its parts, and how they lie in it."""
    shapes = [parse_shape(texts, one) for one in ids]
    if cut is None or not all(len(shape) > cut.dimension for shape in shapes):
        return -1, fact("recipe.along_unknown")
    dimension = cut.dimension
    whole = list(shapes[0])
    whole[dimension] = sum(shape[dimension] for shape in shapes)
    return texts.id(str(whole)), fact("recipe.along", dimension=dimension)


def _combined(parts: NDArray[np.float64], whole: NDArray[np.float64], missing: int) -> Fact | None:
    """How the recorded statistics of the whole follow from those of its parts."""
    largest, least, means, norms = parts.T.tolist()
    squares = [fact("recipe.square", value=one) for one in norms]
    values = whole.tolist()
    steps = (
        fact("recipe.max", parts=largest, whole=values[0]),
        fact("recipe.min", parts=least, whole=values[1]),
        fact("recipe.mean", parts=means, whole=values[2]),
        fact("recipe.norm", parts=squares, whole=values[3]),
    )
    recorded = [step for bit, step in enumerate(steps) if not missing >> bit & 1]
    return fact("recipe.statistics", statistics=recorded) if recorded else None
