"""What was done by hand as messages."""

from __future__ import annotations

from msprobe_builder.database.read.edits import Edit, EditState, ManualMatch
from tb_graph_ascend.generated import graph_pb2 as pb


def encode_edit(edit: Edit) -> pb.Edit:
    """One entry of the history."""
    return pb.Edit(
        edit=edit.batch,
        edited_at=edit.edited_at,
        author=edit.author,
        action=pb.MatchAction.Name(edit.action),
        step=edit.step,
        rank=edit.rank,
        npu=edit.npu,
        bench=edit.bench,
        npu_name=edit.npu_name,
        bench_name=edit.bench_name,
        reason=edit.reason,
        undone=edit.undone,
        pairs=edit.pairs,
    )


def encode_edit_state(state: EditState) -> pb.EditState:
    """What undo and redo would do."""
    return pb.EditState(
        undo=None if state.undo is None else encode_edit(state.undo),
        redo=None if state.redo is None else encode_edit(state.redo),
        changed=state.changed,
    )


def encode_match_file(matches: list[ManualMatch], rejected: list[ManualMatch]) -> pb.MatchFile:
    """Matches, and those that were rejected, in the form of a match file."""
    return pb.MatchFile(
        version=1,
        matches=map(_entry, matches),
        rejected=map(_entry, rejected),
    )


def _entry(match: ManualMatch) -> pb.MatchFileEntry:
    return pb.MatchFileEntry(npu=match.npu, bench=match.bench, step=match.step, rank=match.rank)
