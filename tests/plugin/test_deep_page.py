"""What a page costs does not grow with how deep its modules lie."""

from __future__ import annotations

from pathlib import Path

from msprobe_builder import BuildConfig, build
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.graphs import NPU, find_graph
from tb_graph_ascend.page.nodes import Stacks, details
from tests.builder.small_dumps import forward, tensor, write_dump

DEPTH = 300


def test_a_deep_module_is_read_like_any_other(tmp_path: Path) -> None:
    names = [f"Module.m{number}.M.forward.0" for number in range(DEPTH)]
    records = {name: forward([tensor()], [tensor()]) for name in names}
    parents = dict(zip(names, [None, *names[:-1]], strict=True))
    write_dump(tmp_path / "dump", records, construct=parents)
    database = build(BuildConfig(tmp_path / "dump"), tmp_path, workers=1).path
    asked: list[int] = []
    with opened(database) as connection:
        graph = find_graph(connection, 0, 0, NPU)
        assert graph is not None
        assert graph.count > DEPTH
        for index in (2, graph.count - 1):
            said: list[str] = []
            connection.set_trace_callback(said.append)
            [node] = details(connection, graph, [index], Stacks())
            connection.set_trace_callback(None)
            assert node.index == index
            asked.append(len(said))
    assert asked[0] == asked[1]
