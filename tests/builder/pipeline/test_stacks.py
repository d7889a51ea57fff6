"""From stack.json to the database: every node keeps its own stack, on every rank and side."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from msprobe_builder import BuildConfig, build
from tests.builder.small_dumps import forward, tensor, write_dump

LINEAR, LINEAR_BACK = "Module.fc.Linear.forward.0", "Module.fc.Linear.backward.0"
SECOND_BACK = "Module.fc.Linear.backward.1"
THIRD, THIRD_BACK = "Module.fc.Linear.forward.2", "Module.fc.Linear.backward.2"
ADD, ADD_BACK = "Torch.add.0.forward", "Torch.add.0.backward"
OWN_BACK = "Torch.mul.0.backward"
ALONE = "Torch.sum.0.forward"

# What was called where; the rest have no entry of their own.
CALLED = {LINEAR: 10, THIRD: 50, ADD: 20, "Torch.mul.0.forward": 30, OWN_BACK: 40}
SHOWN = {
    **CALLED,
    LINEAR_BACK: 10,  # a backward call is shown with the stack of its forward call
    SECOND_BACK: 10,  # of the first one, where its own was not recorded
    THIRD_BACK: 50,
    ADD_BACK: 20,
}


def lines(file: str, line: int) -> list[str]:
    outer = f"File {file}, line 1, in main, \n main()"
    return [f"File {file}, line {line}, in call, \n call()", outer]


def write_rank(directory: Path, file: str) -> Path:
    names = [*CALLED, LINEAR_BACK, SECOND_BACK, THIRD_BACK, ADD_BACK, ALONE]
    data = {name: forward([tensor()], [tensor()]) for name in names}
    stack = {
        str(place): [[name], lines(file, line)] for place, (name, line) in enumerate(CALLED.items())
    }
    return write_dump(directory, data, stack=stack)


def test_every_node_shows_where_it_was_called(tmp_path: Path) -> None:
    for side in ("npu", "bench"):
        for rank in range(3):
            write_rank(tmp_path / side / f"rank{rank}", f"/{side}/{rank}.py")
    config = BuildConfig(tmp_path / "npu", tmp_path / "bench")
    result = build(config, tmp_path / "out", workers=1)
    with closing(sqlite3.connect(result.path)) as connection:
        rows = connection.execute(
            "SELECT side, rank, name, depth, file.value, line, function.value, source.value"
            " FROM node_view JOIN node USING (node_id) LEFT JOIN stack USING (stack_id)"
            " LEFT JOIN frame USING (frame_id)"
            " LEFT JOIN text AS file ON file.text_id = file_id"
            " LEFT JOIN text AS function ON function.text_id = function_id"
            " LEFT JOIN text AS source ON source.text_id = source_id"
            " WHERE node.kind != 2 AND name != 'DefaultModel' ORDER BY side, rank, name, depth"
        ).fetchall()
    expected = []
    for side in ("bench", "npu"):
        for rank in range(3):
            for name in sorted({*SHOWN, ALONE}):
                file = f"/{side}/{rank}.py"
                if name == ALONE:
                    expected.append((side, rank, name, *[None] * 5))
                else:
                    expected.append((side, rank, name, 0, file, SHOWN[name], "call", "call()"))
                    expected.append((side, rank, name, 1, file, 1, "main", "main()"))
    assert rows == expected
