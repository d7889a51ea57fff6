"""Schema, wire contract and TypeScript say the same as ``base/codes.py``."""

from __future__ import annotations

import re
from enum import IntEnum

import pytest
from google.protobuf.descriptor import EnumDescriptor

from msprobe_builder.base import codes
from msprobe_builder.base.codes import METRICS, SIDES, STATISTICS, words
from msprobe_builder.database.layout import current_layout
from tb_graph_ascend.generated import graph_pb2 as pb
from tests.conftest import REPOSITORY

VIEWS = current_layout().views


def test_metrics_are_columns_of_the_schema_in_the_order_of_their_flags() -> None:
    columns = current_layout().column_names("comparison")
    start = columns.index(METRICS[0])
    assert columns[start : start + len(METRICS)] == METRICS
    shown = re.findall(r"own\.nan_flags & (\d+), 'NaN', own\.(\w+)", VIEWS["tensor_view"])
    assert shown == [(str(1 << bit), name) for bit, name in enumerate(METRICS)]


def test_statistics_are_columns_of_the_schema_in_the_order_of_their_flags() -> None:
    columns = current_layout().column_names("tensor")
    start = columns.index(STATISTICS[0])
    assert columns[start : start + len(STATISTICS)] == STATISTICS
    shown = re.findall(r"tensor\.nan_flags & (\d+), 'NaN', tensor\.(\w+)", VIEWS["tensor_view"])
    assert shown == [(str(1 << bit), name) for bit, name in enumerate(STATISTICS)]


@pytest.mark.parametrize(
    ("view", "column", "known"),
    [
        ("node_view", "node.kind", dict(enumerate(words(codes.Kind)))),
        ("node_view", "node.overflow", dict(enumerate(words(codes.Overflow)))),
        ("tensor_view", "tensor.section", dict(enumerate(words(codes.Section)))),
    ],
)
def test_words_of_the_views_are_those_of_the_codes(
    view: str, column: str, known: dict[int, str]
) -> None:
    [case] = re.findall(rf"CASE {re.escape(column)}\s(.*?)\sEND", VIEWS[view], flags=re.DOTALL)
    shown = {int(number): word for number, word in re.findall(r"WHEN (\d) THEN '(\w+)'", case)}
    rest = re.findall(r"ELSE '(\w+)'", case)
    assert shown.items() <= known.items()
    left = {known[number] for number in known.keys() - shown.keys()} - {"none"}
    assert left == set(rest)


def test_sides_of_the_views_are_those_of_the_codes() -> None:
    for view in ("node_view", "tensor_view"):
        assert re.findall(r"iif\(graph\.side = 0, '(\w+)', '(\w+)'\)", VIEWS[view]) == [SIDES]


def test_metrics_are_fields_of_the_contract() -> None:
    fields = {field.name for field in pb.Comparison.DESCRIPTOR.fields}
    assert set(METRICS) <= fields
    assert set(STATISTICS) <= {field.name for field in pb.Parameter.DESCRIPTOR.fields}


@pytest.mark.parametrize(
    ("of_contract", "of_codes"),
    [
        (pb.Kind, codes.Kind),
        (pb.Direction, codes.Direction),
        (pb.Grade, codes.Grade),
        (pb.Overflow, codes.Overflow),
        (pb.Section, codes.Section),
        (pb.CallRole, codes.CallRole),
        (pb.MatchSource, codes.Source),
    ],
)
def test_numbers_of_the_contract_say_the_same(of_contract: object, of_codes: type[IntEnum]) -> None:
    descriptor: EnumDescriptor = of_contract.DESCRIPTOR  # type: ignore[attr-defined]
    prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", descriptor.name).upper() + "_"
    listed = [
        value.name.removeprefix(prefix)
        for value in descriptor.values
        if not value.name.endswith("UNSPECIFIED")
    ]
    assert listed == [code.name for code in of_codes]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_browser_has_words_for_every_metric(language: str) -> None:
    """Its table of tensors shows the numbers that the contract lists; only words are its own."""
    words = REPOSITORY / "frontend_polymer" / "src" / "i18n" / language / "tensors.ts"
    listed = re.findall(r"^ +(\w+):", words.read_text(encoding="utf-8"), re.M)
    assert {name: listed.count(name) for name in METRICS} == dict.fromkeys(METRICS, 2)
