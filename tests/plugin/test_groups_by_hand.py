"""Groups of calls, one of which is matched by hand: over HTTP, on a real pair of runs."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

from msprobe_builder.export.table import export_table
from tb_graph_ascend.generated import graph_pb2 as pb
from tests.conftest import BuildDatabase
from tests.plugin.changing import change, operation, post, report, revision_of
from tests.plugin.conftest import catalog, client_of, node, skeleton


def test_a_group_ends_where_one_of_its_calls_is_matched_by_hand(
    tmp_path: Path, pairs: Path, build_database: BuildDatabase
) -> None:
    """What it said of the call would stand beside what the match says; undoing brings it back."""
    file = "grouped.vis.db"
    sides = (next((pairs / "sdpa" / side).glob("step0/rank*")) for side in ("npu", "bench"))
    path = Path(shutil.copy(build_database(*sides), tmp_path / file))
    ask = client_of(tmp_path)

    def told() -> tuple[list[pb.CallGroup], list[int], list[int], int]:
        groups = pb.Groups.FromString(ask("groups", file=file, step="0", rank="0").data).groups
        columns = [skeleton(ask, file=file, side=side).group for side in ("npu", "bench")]
        [graph] = catalog(ask).files[0].graphs
        return list(groups), list(columns[0]), list(columns[1]), graph.groups

    def exported() -> list[str]:
        (tmp_path / "nodes.csv").unlink(missing_ok=True)
        export_table(path, tmp_path / "nodes.csv")
        lines = list(csv.DictReader((tmp_path / "nodes.csv").open(encoding="utf-8")))
        return [line["name"] for line in lines if line["call_group"]]

    before, names = told(), exported()
    groups, *_, count = before
    assert count == len(groups) == 8
    ended = groups[2]
    npu, bench = ended.npu[0], ended.bench[-1]
    report(change(ask, file, operation(npu, bench)))
    after, own, theirs, count = told()
    assert count == 7
    assert [list(one.npu) for one in after] == [list(one.npu) for one in groups if one != ended]
    for column, members in ((own, ended.npu), (theirs, ended.bench)):
        assert not any(column[index] for index in members)
    assert max(own) == 7
    for side, members in (("npu", ended.npu), ("bench", ended.bench)):
        assert not any(
            node(ask, file=file, side=side, index=index).HasField("group") for index in members
        )
    assert len(exported()) == len(names) - len(ended.npu) - len(ended.bench)
    report(post(ask, "undo", {"file": file, "revision": revision_of(ask, file)}))
    assert told() == before
    assert exported() == names
