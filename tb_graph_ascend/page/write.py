"""The viewer with everything that it may ask for, as one HTML file."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.publish import written
from msprobe_builder.database.file import DatabaseFile, changes_of, read_file
from msprobe_builder.database.open import require_file
from msprobe_builder.database.read.graphs import BENCH, NPU, find_graph, other_side
from msprobe_builder.database.read.groups import read_groups
from msprobe_builder.database.read.measures import read_measures
from msprobe_builder.database.read.skeleton import read_skeleton
from msprobe_builder.database.read.summary import read_summary
from msprobe_builder.database.read.values import read_norms, read_output_kinds
from msprobe_builder.database.whole import opened_whole
from msprobe_builder.facts.fact import Fact, fact
from tb_graph_ascend.encode.answers import encode_file, encode_groups
from tb_graph_ascend.encode.measures import encode_measures
from tb_graph_ascend.encode.skeleton import encode_skeleton
from tb_graph_ascend.encode.values import encode_values
from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.http.static_files import STATIC
from tb_graph_ascend.page.nodes import BLOCK, Stacks, details, leave_out
from tb_graph_ascend.problems import ProblemError

Chosen = frozenset[int] | None
_START = "\ndocument.body.append(document.createElement('ga-app'));\n"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body {{ margin: 0; }}</style>
</head>
<body>
{answers}
<script type="module">{program}</script>
</body>
</html>
"""


def write_page(database: Path, output: Path, steps: Chosen, ranks: Chosen, most: int) -> Fact:
    """Write the page for the chosen steps and ranks, None for all; returns what it holds.

    Args:
        database: a .vis.db file
        output: the .html file
        steps: numbers of the steps
        ranks: numbers of the ranks
        most: bytes that the page may have

    Raises:
        UsageError: for a name or a choice that does not fit
        BuildError: when the file cannot be read, or the page would be larger
    """
    if output.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{output} has not the suffix .html; give the name of the page with -o.")
    require_file(database)
    file = read_file(database.name, database)
    if file is None:  # it went away
        raise BuildError(f"There is no file {database}; give the .vis.db file that a build wrote.")
    program = _program()
    try:
        with opened_whole(database) as connection:
            page = _Content(connection, file, steps, ranks)
            text = _page(page.title, program, page)
            if len(text) > most:
                page.leave_out()
                text = _page(page.title, program, page)
    except ProblemError as error:
        raise BuildError(f"{error.problem.message} {error.problem.remedy}") from error
    if len(text) > most:
        raise BuildError(
            f"The page would have {len(text) / 1e6:.1f} MB, more than {most / 1e6:.0f};"
            f" choose graphs with --step and --rank, or allow it with --size"
            f" {len(text) // 10**6 + 1}."
        )
    with written(output) as stream:
        stream.write(text)
    return page.said(output, len(text))


class _Content:
    """Everything that the page answers with, by names that the front end knows."""

    def __init__(
        self, connection: sqlite3.Connection, file: DatabaseFile, steps: Chosen, ranks: Chosen
    ) -> None:
        described = encode_file(file, read_summary(connection), is_writable=False)
        chosen = [
            pair
            for pair in described.graphs
            if (steps is None or pair.step in steps) and (ranks is None or pair.rank in ranks)
        ]
        if not chosen:
            raise UsageError(f"{file.name} has no graph of this step and rank.")
        self._note = pb.PageNote(graphs=len(chosen), graphs_of=len(described.graphs))
        places = {(pair.step, pair.rank) for pair in chosen}
        suspects = [one for one in described.verdict.suspects if (one.step, one.rank) in places]
        del described.graphs[:], described.verdict.suspects[:]
        described.graphs.extend(chosen)
        if described.HasField("verdict"):
            described.verdict.suspects.extend(suspects)
        self._file = described
        self._answers: dict[str, bytes] = {}
        self._nodes: dict[str, list[pb.PageNode]] = {}
        for pair in chosen:
            self._read(connection, file.revision, pair)

    @property
    def title(self) -> str:
        """What the sides are called, else the file."""
        names = (self._file.npu_name, self._file.bench_name)
        return " ↔ ".join(filter(None, names)) or self._file.file

    def _read(self, connection: sqlite3.Connection, revision: str, pair: pb.GraphPair) -> None:
        step, rank = pair.step, pair.rank
        place = f"{step}/{rank}"
        stacks = Stacks()
        norms, kinds = [], []
        for side in (NPU, BENCH):
            graph = find_graph(connection, step, rank, side)
            if graph is None:
                continue
            norms.append(read_norms(connection, graph))
            kinds.append(read_output_kinds(connection, graph))
            other = other_side(connection, graph)
            skeleton = read_skeleton(connection, graph, other, changes_of(revision))
            encoded = encode_skeleton(revision, skeleton)
            self._answers[f"skeleton/{place}/{side}"] = encoded.content
            # Matched nodes of the reference stand with their partners.
            alone = np.flatnonzero(skeleton.grade == pb.GRADE_UNMATCHED)
            indexes = range(graph.count) if side == NPU else alone.tolist()
            nodes = list(details(connection, graph, indexes, stacks))
            self._nodes[f"nodes/{place}/{side}"] = nodes
            if side == NPU:
                measures = encode_measures(revision, read_measures(connection, graph))
                self._answers[f"measures/{place}"] = measures.SerializeToString()
        if len(norms) == 2:
            values = encode_values(revision, (norms[0], norms[1]), (kinds[0], kinds[1]))
            self._answers[f"values/{place}"] = values.SerializeToString()
        groups = encode_groups(revision, read_groups(connection, step, rank))
        self._answers[f"groups/{place}"] = groups.SerializeToString()
        self._answers[f"stacks/{place}"] = stacks.message.SerializeToString()

    def leave_out(self) -> None:
        """Take out the tensors of nodes without error."""
        self._note.tensors_left_out = sum(
            leave_out(node) for nodes in self._nodes.values() for node in nodes
        )

    def answers(self) -> Iterator[tuple[str, bytes]]:
        """All answers by their names."""
        catalog = pb.Catalog(files=[self._file], page=self._note)
        yield "catalog", catalog.SerializeToString()
        yield from self._answers.items()
        for name, nodes in self._nodes.items():
            for start in range(0, len(nodes), BLOCK):
                part = nodes[start : start + BLOCK]
                block = pb.PageBlock(nodes=part).SerializeToString()
                yield f"{name}/{part[0].index}", block

    def said(self, output: Path, size: int) -> Fact:
        """What the page holds, for the user."""
        note = self._note
        graphs = fact("page.the_graph")
        if note.graphs_of != 1:
            graphs = fact("page.some_graphs", graphs=note.graphs, total=note.graphs_of)
        nodes = note.tensors_left_out
        left_out = fact("page.left_out", nodes=nodes) if nodes else None
        size_text = f"{size / 1e6:.1f}"
        return fact(
            "page.holds", file=str(output), graphs=graphs, left_out=left_out, size=size_text
        )


def _page(title: str, program: str, content: _Content) -> bytes:
    answers = "\n".join(
        f'<script type="application/octet-stream" data-answer="{name}">{_packed(body)}</script>'
        for name, body in content.answers()
    )
    digest = base64.b64encode(hashlib.sha256(program.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline';"
        " img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return _PAGE.format(
        policy=policy, title=html.escape(title), answers=answers, program=program
    ).encode()


def _packed(body: bytes) -> str:
    return base64.b64encode(gzip.compress(body, 9, mtime=0)).decode()


def _program() -> str:
    """The front end as one script; its entry does nothing but load the one module that there is."""
    modules = sorted((STATIC / "assets").glob("*.js"))
    if len(modules) != 1:
        raise BuildError('The front end is not built: run "make build" or install the wheel.')
    text = modules[0].read_text(encoding="utf-8")
    # What would end the script is written in another way; it stands in strings only.
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--") + _START
