"""Records to the messages of proto/graph.proto."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from msprobe_builder.base.codes import METRICS, SIDES, STATISTICS
from msprobe_builder.database.file import DatabaseFile
from msprobe_builder.database.read.communication import CommunicationPartner
from msprobe_builder.database.read.groups import CallGroup
from msprobe_builder.database.read.meta import side_names
from msprobe_builder.database.read.nodes import NodeDetail, NodeRecord, OperatorCheck
from msprobe_builder.database.read.parameters import (
    Comparison,
    Parameter,
    ParameterRow,
)
from msprobe_builder.database.read.summary import Summary
from msprobe_builder.facts.fact import encode
from tb_graph_ascend.encode.configuration import encode_configuration
from tb_graph_ascend.encode.edits import encode_edit, encode_edit_state
from tb_graph_ascend.encode.verdict import encode_node_verdict
from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.problems import Problem


def encode_problem(problem: Problem) -> pb.Problem:
    """The body of every answer with a status of 400 or above."""
    # Whatever is quoted, half a character among it must not cost the answer itself.
    message, remedy = (
        words.encode("utf-8", "backslashreplace").decode()
        for words in (problem.message, problem.remedy)
    )
    return pb.Problem(code=problem.code, message=message, remedy=remedy, revision=problem.revision)


def encode_catalog(
    logdir: str, files: Iterable[pb.DatabaseFile], *, open_to_network: bool
) -> pb.Catalog:
    """The list of files."""
    return pb.Catalog(logdir=logdir, files=files, open_to_network=open_to_network)


def encode_file(
    file: DatabaseFile, content: Summary | Problem, is_writable: bool
) -> pb.DatabaseFile:
    """A file with what it holds, or why that cannot be shown."""
    message = pb.DatabaseFile(
        file=file.name, size=file.size, modified=file.modified, revision=file.revision
    )
    if isinstance(content, Problem):
        message.problem.CopyFrom(encode_problem(content))
        return message
    message.is_comparison = content.is_comparison
    message.task = content.meta.get("task", "")
    message.npu_path = content.meta.get("npu_path", "")
    message.bench_path = content.meta.get("bench_path", "")
    message.npu_name, message.bench_name = side_names(content.meta)
    message.created_at = content.meta.get("created_at", "")
    message.overflow_checked = content.meta.get("overflow_checked") == "1"
    message.writable = is_writable
    message.alignment = content.meta.get("alignment", "")
    if is_writable:
        message.edits.CopyFrom(encode_edit_state(content.edits))
    places = content.verdict.places if content.verdict else ()
    outcomes = {(place.step, place.rank): place.outcome for place in places}
    message.graphs.extend(
        pb.GraphPair(
            step=pair.step,
            rank=pair.rank,
            micro_steps=pair.micro_steps,
            npu_nodes=pair.npu_nodes,
            bench_nodes=pair.bench_nodes,
            grade_counts=pair.grade_counts,
            worst_grade=pb.Grade.Name(pair.worst_grade),
            npu_unmatched=pair.grade_counts[pb.GRADE_UNMATCHED] if pair.grade_counts else 0,
            bench_unmatched=pair.bench_unmatched,
            overflow_counts=pair.overflow_counts,
            bench_overflow_counts=pair.bench_overflow_counts,
            automatic=pair.automatic,
            groups=pair.groups,
            outcome=outcomes.get((pair.step, pair.rank), ""),
            npu_loss=pair.npu_loss,
            bench_loss=pair.bench_loss,
        )
        for pair in content.graphs
    )
    message.bands.extend(
        pb.GradeBand(
            grade=pb.Grade.Name(band.grade),
            name=band.name,
            low=band.low,
            high=band.high,
            colour=band.colour,
        )
        for band in content.bands
    )
    message.diagnostics.extend(
        pb.Diagnostic(
            severity=entry.severity,
            code=entry.code,
            subject=entry.subject,
            count=entry.count,
            message=encode(entry.said),
            step=entry.step,
            rank=entry.rank,
            side=entry.side,
        )
        for entry in content.diagnostics
    )
    message.failed_ranks.extend(
        pb.FailedRank(step=step, rank=rank, reason=reason) for step, rank, reason in content.failed
    )
    _add_verdict(message, content)
    if content.configuration is not None:
        message.configuration.CopyFrom(encode_configuration(content.configuration))
    return message


def _add_verdict(message: pb.DatabaseFile, content: Summary) -> None:
    verdict = content.verdict
    if verdict is None:
        return
    message.verdict.conclusion = verdict.conclusion
    message.verdict.said = encode(verdict.said)
    message.verdict.compared = verdict.compared
    if verdict.next_dump is not None:
        message.verdict.next_dump.config = json.dumps(verdict.next_dump.get("config"), indent=2)
        message.verdict.next_dump.remark = encode(verdict.remark)
        size = verdict.next_dump.get("expected_bytes")
        if isinstance(size, int | float):
            message.verdict.next_dump.bytes = size
    message.verdict.suspects.extend(
        pb.Suspect(
            step=node.suspect.step,
            rank=node.suspect.rank,
            side=pb.Side.Name(SIDES.index(node.suspect.side)),
            index=node.index,
            name=node.suspect.node,
            strong=node.suspect.strength == "strong",
            cause=node.suspect.cause,
            evidence=encode(node.suspect.facts),
            error=node.suspect.error,
            expected=node.suspect.expected,
            followers=node.suspect.followers,
            source=node.suspect.source or "",
            command=node.suspect.command or "",
        )
        for node in content.suspects
    )


def encode_node(revision: str, detail: NodeDetail) -> pb.NodeDetail:
    """A node with its partner."""
    return pb.NodeDetail(
        revision=revision,
        npu=None if detail.npu is None else _encode_record(detail.npu),
        bench=None if detail.bench is None else _encode_record(detail.bench),
        rows=(_encode_row(row) for row in detail.rows),
        history=map(encode_edit, detail.history),
        verdict=None if detail.verdict is None else encode_node_verdict(detail.verdict),
        group=None if detail.group is None else _encode_group(detail.group),
    )


def encode_groups(revision: str, groups: list[CallGroup]) -> pb.Groups:
    """The groups of a step and rank."""
    return pb.Groups(revision=revision, groups=map(_encode_group, groups))


def _encode_group(group: CallGroup) -> pb.CallGroup:
    npu, bench = group.first
    return pb.CallGroup(
        operation=group.operation,
        npu=[node - npu for node in group.npu],
        bench=[node - bench for node in group.bench],
        grade=pb.Grade.Name(group.grade),
        error=group.error,
        certainty=group.certainty,
        rows=(
            pb.GroupRow(
                npu_index=row.npu - npu,
                bench_index=row.bench - bench,
                npu_name=row.npu_name,
                bench_name=row.bench_name,
                row=_encode_row(row.row),
            )
            for row in group.rows
        ),
    )


def _encode_record(record: NodeRecord) -> pb.NodeRecord:
    candidate, check = record.candidate, record.operator_check
    return pb.NodeRecord(
        index=record.index,
        name=record.name,
        path=record.path,
        kind=pb.Kind.Name(record.kind),
        micro_step=record.micro_step,
        is_recompute=record.is_recompute,
        error=record.error,
        grade=pb.Grade.Name(record.grade),
        overflow=pb.Overflow.Name(record.overflow),
        stack=(
            pb.StackFrame(
                file=frame.file,
                line=frame.line,
                function=frame.function,
                source=frame.source,
                is_library=frame.is_library,
            )
            for frame in record.stack
        ),
        unmatched_reason=record.unmatched_reason,
        unmatched_detail=record.unmatched_detail,
        candidate_index=None if candidate is None else candidate.index,
        candidate_name="" if candidate is None else candidate.name,
        match_source=record.match.source,
        match_author=record.match.author,
        matched_at=record.match.matched_at,
        match_note=record.match.note,
        communication=map(_encode_partner, record.communication),
        origin_ranks=record.origin_ranks,
        operator_check=None if check is None else _encode_check(check),
        match_evidence=record.match.evidence,
        match_certainty=record.match.certainty,
    )


def _encode_check(check: OperatorCheck) -> pb.OperatorCheck:
    return pb.OperatorCheck(
        status=check.status, compared=check.compared, times=check.times, reason=check.reason
    )


def _encode_partner(partner: CommunicationPartner) -> pb.CommunicationPartner:
    return pb.CommunicationPartner(
        step=partner.step,
        rank=partner.rank,
        index=partner.index,
        name=partner.name,
        role=partner.role,
        grade=pb.Grade.Name(partner.grade),
        overflow=pb.Overflow.Name(partner.overflow),
        **_known({"error": partner.error}, data_equal=partner.data_equal),
    )


def _encode_row(row: ParameterRow) -> pb.ParameterRow:
    return pb.ParameterRow(
        npu=None if row.npu is None else _encode_parameter(row.npu),
        bench=None if row.bench is None else _encode_parameter(row.bench),
        comparison=None if row.comparison is None else _encode_comparison(row.comparison),
    )


def _encode_parameter(parameter: Parameter) -> pb.Parameter:
    return pb.Parameter(
        section=pb.Section.Name(parameter.section),
        name=parameter.name,
        type=parameter.type,
        dtype=parameter.dtype,
        shape=parameter.shape,
        md5=parameter.md5,
        value=parameter.value,
        file=parameter.file,
        overflows=parameter.overflows,
        recipe=parameter.recipe,
        **_known(
            dict(zip(STATISTICS, parameter.statistics, strict=True)),
            requires_grad=parameter.requires_grad,
        ),
    )


def _encode_comparison(comparison: Comparison) -> pb.Comparison:
    return pb.Comparison(
        error=comparison.error,
        note=comparison.note,
        slices=comparison.slices,
        **_known(
            dict(zip(METRICS, comparison.metrics, strict=True)),
            md5_equal=comparison.md5_equal,
            requires_grad_equal=comparison.requires_grad_equal,
        ),
    )


def _known(numbers: dict[str, float | None], **flags: bool | None) -> dict[str, Any]:
    """The fields that have a value."""
    return {name: value for name, value in (numbers | flags).items() if value is not None}
