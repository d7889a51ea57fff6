"""A model that was split over ranks, joined, against the whole model under other names."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.alignment.respell import (
    chained,
    other_attributes,
    other_classes,
    prefixed,
    recording,
    truth,
)
from tests.conftest import BuildDatabase

SPLIT = {
    "npu": {"rank_size": 2, "tp": 2, "pp": 1},
    "bench": {"rank_size": 1, "tp": 1, "pp": 1},
}


def matches(database: Path) -> dict[str, str]:
    with closing(sqlite3.connect(database)) as connection:
        return dict(
            connection.execute(
                "SELECT name, matched FROM node_view WHERE side = 'npu' AND matched IS NOT NULL"
            )
        )


@pytest.mark.parametrize("level", ["_L0", pytest.param("", marks=pytest.mark.slow)])
def test_other_names_change_nothing_that_is_matched(
    dumps: Path, build_database: BuildDatabase, tmp_path: Path, level: str
) -> None:
    split, whole = (dumps / f"megatron_{name}{level}" / "step0" for name in ("tp2pp1", "tp1pp1"))
    change = chained(other_classes, other_attributes, prefixed("module.module"))
    renamed = change(recording(min(whole.glob("rank*"))))
    rank = tmp_path / "whole" / "rank0"
    rank.mkdir(parents=True)
    for file, content in (
        ("dump.json", {**renamed.head, "data": renamed.data}),
        ("construct.json", renamed.parent),
        ("stack.json", {}),
    ):
        (rank / file).write_text(json.dumps(content), "utf-8")
    equal = matches(build_database(split, whole, parallel_merge=SPLIT))
    other = matches(build_database(split, rank.parent, parallel_merge=SPLIT))
    right = truth(renamed)
    assert len(equal) > 200
    assert {name: right.get(partner, partner) for name, partner in other.items()} == equal
