"""What two dumps have alike stands once; what differs, if only in a sign of zero, stands twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.read import read_dump
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.shared import Shared
from tests.builder.small_dumps import forward, tensor, write_dump


def tables(folder: Path, means: tuple[float | None, ...]) -> list[ParameterTable]:
    shared, texts, found = Shared(), Texts(), []
    for number, mean in enumerate(means):
        data = {"Torch.tanh.0.forward": forward([tensor(mean=mean)], [tensor(2.0)])}
        dump = read_dump(write_dump(folder / str(number), data), texts)
        tree, _ = shared.tree(dump)
        found.append(shared.table(tree, dump.parameters))
    return found


def test_equal_columns_are_one_array_that_nobody_can_write_to(tmp_path: Path) -> None:
    one, other = tables(tmp_path, (0.5, 0.5))
    assert np.shares_memory(one.statistics, other.statistics)
    assert not other.statistics.flags.writeable


@pytest.mark.parametrize("means", [(0.0, -0.0), (-0.0, 0.0), (0.5, 0.25), (0.5, None)])
def test_each_side_keeps_its_own_numbers(tmp_path: Path, means: tuple[float | None, ...]) -> None:
    for mean, table in zip(means, tables(tmp_path, means), strict=True):
        expected = np.array([np.nan if mean is None else mean, 0.0])
        assert table.statistics[2].tobytes() == expected.tobytes() or (
            mean is None and np.isnan(table.statistics[2, 0])
        )
