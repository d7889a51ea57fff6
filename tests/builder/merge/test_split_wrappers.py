"""What is shown of a module of which every stage of a pipeline ran another part."""

from __future__ import annotations

from pathlib import Path

import pytest

from msprobe_builder.base.texts import Texts
from msprobe_builder.merge.join.rows import merged_rows
from msprobe_builder.merge.join.stages import join_stages
from msprobe_builder.merge.ranks.part import StageGraph
from msprobe_builder.merge.values.tensor_parallel import merge_ranks
from msprobe_builder.pipeline.compare import read_rank
from tests.builder.small_dumps import Record, forward, tensor, write_dump

BLOCK = "Module.decoder.Block.forward.0"
LAYER = "Module.decoder.layers.0.Layer.forward.0"


def stage(folder: Path, number: int, texts: Texts) -> StageGraph:
    """A stage whose wrapper has a weight that all have, and one of its own; norms tell whose."""
    weights = {"shared": tensor(100.0 + number), f"own{number}": tensor(200.0 + number)}
    block: Record = forward([tensor(10.0 + number)], [tensor(20.0 + number)])
    data = {BLOCK: block | {"parameters": weights}, LAYER: forward([tensor()], [tensor()])}
    folder = write_dump(folder / f"rank{number}", data, {BLOCK: None, LAYER: BLOCK})
    side, _ = read_rank(folder, texts)
    return merge_ranks([side], [number], texts)[0]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_data_enters_at_the_first_stage_leaves_at_the_last_and_weights_are_of_all(
    count: int, tmp_path: Path
) -> None:
    texts = Texts()
    stages = [stage(tmp_path, number, texts) for number in range(count)]
    top = join_stages(stages, 1).top
    [place] = [at for at, node in enumerate(top) if node.name.stem == "Module.decoder.Block"]
    table, provenance = merged_rows(top, stages)
    rows = [row for row in range(len(table)) if table.node[row] == place]
    shown = {texts.values[table.name_id[row]]: float(table.statistics[3, row]) for row in rows}
    assert shown == {
        "input.0": 10.0,
        "output.0": 20.0 + count - 1,
        "parameters.shared": 100.0,
        **{f"parameters.own{number}": 200.0 + number for number in range(count)},
    }
    assert len(rows) == len(shown)
    told = [dict(fact.arguments) for row in rows for fact in provenance.recipes.get(row, ())]
    last = count - 1
    of_stage = [0, last, 0, *range(count)] if count > 1 else []
    assert [one["stage"] for one in told] == of_stage
    assert [one["ranks"] for one in told] == [(one,) for one in of_stage]
