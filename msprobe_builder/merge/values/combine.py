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
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.graph.assembly import Assembly
from msprobe_builder.graph.floating import epsilons
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.provenance import Factors, Provenance, Shares
from msprobe_builder.merge.flow.dimensions import Cut
from msprobe_builder.merge.flow.share import Share, State
from msprobe_builder.merge.values.agreement import apart, distances, tolerances
from msprobe_builder.merge.values.blocks import Orders, in_words
from msprobe_builder.merge.values.data import assemblies, checksums, is_one_file

NO_ORDERS: Mapping[int, Orders] = MappingProxyType({})
_DEPENDS = "depends on the rank and is not reduced: unknown"
_REASONS = {
    Share.REPLICA: "not all ranks have it",
    Share.SHARD: "how the parts are cut is not known",
    Share.PARTIAL: "partial sums whose total was not recorded: unknown",
    Share.LOCAL: _DEPENDS,
    Share.UNKNOWN: _DEPENDS,
}
_NO_CHECKSUM = "checksum unknown: those of parts say nothing of the whole"
_NO_ORDER_TOLD = "; whether elements are in their places cannot be told from statistics"
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
    recipes: dict[int, str] = {}

    files_known = bool(parts) and bool(parts[0])
    shards = np.flatnonzero((share == Share.SHARD) & tensors)
    elements = np.array([table.numel[shards] for table in tables])
    statistics[:, shards] = combined_shards(stack[:, :, shards], elements)
    numel[shards] = elements.sum(axis=0)
    shape_ids = np.array([table.shape_id for table in tables])
    wholes: dict[tuple[tuple[int, ...], Cut | None], tuple[int, str]] = {}
    for row in shards.tolist():
        ids = tuple(shape_ids[:, row].tolist())
        known = ids, states[row].cut
        if known not in wholes:
            wholes[known] = _whole_shape(*known, texts)
        shape_id[row], shown = wholes[known]
        shown += in_words(orders.get(row, ()))
        own = int(missing[row])
        recipes[row] = _shard_recipe(stack[:, :, row], statistics[:, row], own, ranks, shown)
        if not files_known and first.section[row] == Section.PARAMETERS:
            recipes[row] += _NO_ORDER_TOLD

    for row in np.flatnonzero((share == Share.PARTIAL) & tensors).tolist():
        result = states[row].reduced
        if result < 0:
            missing[row] = ALL_MISSING
            recipes[row] = _REASONS[Share.PARTIAL]
        else:
            statistics[:, row] = statistics[:, result]
            missing[row] = missing[result]
            recipes[row] = "partial results, shown as their reduction over the ranks"
    open_rows = ((share == Share.LOCAL) | (share == Share.UNKNOWN)) & tensors
    missing[open_rows] = ALL_MISSING
    for row in np.flatnonzero(open_rows).tolist():
        recipes[row] = _DEPENDS
        if share[row] == Share.UNKNOWN:
            shape_id[row], numel[row] = -1, np.nan
    statistics[:, missing == ALL_MISSING] = np.nan

    replicas = np.flatnonzero((share == Share.REPLICA) & tensors)
    tolerance = tolerances(epsilons(first.dtype_id, texts))
    away = distances(stack[:, :, replicas], stack[:1, :, replicas]).max(axis=0)
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
    shown = ", ".join(map(str, ranks))
    for row in replicas.tolist():
        recipes[row] = f"alike on ranks {shown}"
    for row in drifted:
        recipes[row] = f"different on ranks {shown}, shown as on rank {ranks[0]}"
    for row in first.md5.keys() - md5.keys():
        recipes[row] = "; ".join(filter(None, (recipes.get(row), unknown[row])))
    for row, recipe in recipes.items():
        if states[row].reason:
            recipes[row] = f"{recipe}; because {states[row].reason}"
    different = sorted({*drifted, *differing})
    return Combined(
        table,
        Provenance(
            recipes,
            files,
            unknown,
            apart={
                row: apart(
                    stack[:, :, row],
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
        ),
        different,
    )


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
        kind = int(first.type_id[row])
        if not first.is_tensor[row] and (kind < 0 or values[kind] != "float"):
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
) -> dict[int, str]:
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
            found[row] = "the ranks have other checksums"
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


def _whole_shape(ids: Sequence[int], cut: Cut | None, texts: Texts) -> tuple[int, str]:
    """The id of the whole's shape from those of its parts, and how they lie in it."""
    shapes = [parse_shape(texts, one) for one in ids]
    if cut is None or not all(len(shape) > cut.dimension for shape in shapes):
        return -1, "along an unknown dimension"
    dimension = cut.dimension
    whole = list(shapes[0])
    whole[dimension] = sum(shape[dimension] for shape in shapes)
    return texts.id(str(whole)), f"along dimension {dimension}"


def _shard_recipe(
    parts: NDArray[np.float64],
    whole: NDArray[np.float64],
    missing: int,
    ranks: Sequence[int],
    where: str,
) -> str:
    shown = [[f"{value:.9g}" for value in column] for column in parts.T.tolist()]
    lists = [", ".join(column) for column in shown]
    squares = "² + ".join(shown[3])
    steps = (
        f"max({lists[0]}) = {whole[0]:.9g}",
        f"min({lists[1]}) = {whole[1]:.9g}",
        f"mean weighted by elements ({lists[2]}) = {whole[2]:.9g}",
        f"norm √({squares}²) = {whole[3]:.9g}",
    )
    recorded = "; ".join(step for bit, step in enumerate(steps) if not missing >> bit & 1)
    told = f"shards of ranks {', '.join(map(str, ranks))} {where}"
    return f"{told}: {recorded}" if recorded else told
