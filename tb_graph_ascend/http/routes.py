"""What each route answers: from the parameters of a request to a message."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from google.protobuf.message import Message
from werkzeug.wrappers import Request

from msprobe_builder.database.read.edits import read_manual_matches
from msprobe_builder.database.read.flow import read_flow
from msprobe_builder.database.read.graphs import BENCH, NPU, other_side
from msprobe_builder.database.read.groups import read_groups
from msprobe_builder.database.read.measures import read_measures
from msprobe_builder.database.read.nodes import read_node
from msprobe_builder.database.read.search import search
from msprobe_builder.database.read.skeleton import read_skeleton
from msprobe_builder.database.read.summary import Summary, read_summary
from msprobe_builder.database.read.values import read_norms
from tb_graph_ascend.encode.answers import (
    encode_catalog,
    encode_file,
    encode_groups,
    encode_node,
)
from tb_graph_ascend.encode.edits import encode_match_file
from tb_graph_ascend.encode.flow import encode_flow
from tb_graph_ascend.encode.measures import encode_measures
from tb_graph_ascend.encode.search import encode_across, encode_candidates, encode_hits
from tb_graph_ascend.encode.skeleton import encode_skeleton
from tb_graph_ascend.encode.values import encode_values
from tb_graph_ascend.files.database import open_database
from tb_graph_ascend.files.discover import DatabaseFile, LogDirectory
from tb_graph_ascend.files.recover import recovered
from tb_graph_ascend.files.writing import is_writable
from tb_graph_ascend.http.answers import Answer
from tb_graph_ascend.http.parameters import read_number, read_search, read_side, read_text
from tb_graph_ascend.problems import Problem, ProblemError, internal_error
from tb_graph_ascend.query.candidates import rank_candidates
from tb_graph_ascend.query.expressions import matching
from tb_graph_ascend.query.wanted import wanted_graph, wanted_node, wanted_places

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Summarised:
    """A file at one revision, and what it holds or why that cannot be shown."""

    file: DatabaseFile
    content: Summary | Problem


class Routes:
    """The data routes over one log directory."""

    def __init__(
        self, logdir: LogDirectory, *, writable: bool, open_to_network: bool = False
    ) -> None:
        self._logdir = logdir
        self._writable = writable
        self._open_to_network = open_to_network
        self._summaries: dict[str, _Summarised] = {}

    def catalog(self, _request: Request) -> Answer:
        """Every file below the log directory and what it holds."""
        known = self._summaries
        summaries = {
            file.name: _summarise(file, known.get(file.name), self._writable)
            for file in self._logdir.files()
        }
        self._summaries = summaries
        encoded = [
            encode_file(one.file, one.content, self._writable and is_writable(one.file))
            for one in summaries.values()
        ]
        catalog = encode_catalog(
            str(self._logdir.path or ""), encoded, open_to_network=self._open_to_network
        )
        # Locks and permissions change without a trace in any revision: the content is the tag.
        return Answer(catalog.SerializeToString(deterministic=True), lambda: catalog)

    def skeleton(self, request: Request) -> Answer:
        """The hierarchy of one graph."""
        file = self.find_file(request)
        step, rank = read_number(request, "step"), read_number(request, "rank")
        side = read_side(request, "side")

        def build() -> Message:
            with open_database(file) as connection:
                graph = wanted_graph(connection, step, rank, side)
                skeleton = read_skeleton(connection, graph, other_side(connection, graph))
                return encode_skeleton(file.revision, skeleton)

        return Answer(file.revision, build)

    def node(self, request: Request) -> Answer:
        """One node with its partner."""
        file = self.find_file(request)
        step, rank = read_number(request, "step"), read_number(request, "rank")
        side, index = read_side(request, "side"), read_number(request, "index")

        def build() -> Message:
            with open_database(file) as connection:
                graph = wanted_graph(connection, step, rank, side)
                node = wanted_node(graph, index)
                detail = read_node(connection, graph, other_side(connection, graph), node)
                return encode_node(file.revision, detail)

        return Answer(file.revision, build)

    def flow(self, request: Request) -> Answer:
        """Where the tensors of one node come from and where they go."""
        file = self.find_file(request)
        step, rank = read_number(request, "step"), read_number(request, "rank")
        side, index = read_side(request, "side"), read_number(request, "index")

        def build() -> Message:
            with open_database(file) as connection:
                graph = wanted_graph(connection, step, rank, side)
                flow = read_flow(connection, graph, wanted_node(graph, index))
                return encode_flow(file.revision, flow)

        return Answer(file.revision, build)

    def groups(self, request: Request) -> Answer:
        """The groups of calls of one step and rank."""
        file = self.find_file(request)
        step, rank = read_number(request, "step"), read_number(request, "rank")

        def build() -> Message:
            with open_database(file) as connection:
                wanted_graph(connection, step, rank, NPU)
                groups = read_groups(connection, step, rank)
                return encode_groups(file.revision, groups)

        return Answer(file.revision, build)

    def search(self, request: Request) -> Answer:
        """Nodes of all steps and ranks."""
        file, wanted = self.find_file(request), read_search(request)

        def build() -> Message:
            with open_database(file) as connection:
                hits, total = search(connection, wanted, matching)
                return encode_hits(file.revision, hits, total, wanted.offset + len(hits))

        return Answer(file.revision, build)

    def candidates(self, request: Request) -> Answer:
        """Nodes of the other side that one may belong to."""
        file = self.find_file(request)
        step, rank = read_number(request, "step"), read_number(request, "rank")
        side, index = read_side(request, "side"), read_number(request, "index")

        def build() -> Message:
            with open_database(file) as connection:
                graph = wanted_graph(connection, step, rank, side)
                other = wanted_graph(connection, step, rank, NPU if side == BENCH else BENCH)
                node = wanted_node(graph, index)
                found = rank_candidates(connection, graph, other, node)
                return encode_candidates(file.revision, found)

        return Answer(file.revision, build)

    def across(self, request: Request) -> Answer:
        """One node in all steps and ranks."""
        file = self.find_file(request)
        name, side = read_text(request, "name"), read_side(request, "side")

        def build() -> Message:
            with open_database(file) as connection:
                places = wanted_places(connection, name, side)
                return encode_across(file.revision, places)

        return Answer(file.revision, build)

    def measures(self, request: Request) -> Answer:
        """How far the outputs of each node are off, by the size of their tensors."""
        file = self.find_file(request)
        step, rank = read_number(request, "step"), read_number(request, "rank")

        def build() -> Message:
            with open_database(file) as connection:
                graph = wanted_graph(connection, step, rank, NPU)
                measures = read_measures(connection, graph)
                return encode_measures(file.revision, measures)

        return Answer(file.revision, build)

    def values(self, request: Request) -> Answer:
        """What the nodes of both sides put out."""
        file = self.find_file(request)
        step, rank = read_number(request, "step"), read_number(request, "rank")

        def build() -> Message:
            with open_database(file) as connection:
                npu = read_norms(connection, wanted_graph(connection, step, rank, NPU))
                bench = read_norms(connection, wanted_graph(connection, step, rank, BENCH))
                return encode_values(file.revision, npu, bench)

        return Answer(file.revision, build)

    def matches(self, request: Request) -> Answer:
        """The matches made by hand, as a match file."""
        file = self.find_file(request)

        def build() -> Message:
            with open_database(file) as connection:
                return encode_match_file(read_manual_matches(connection))

        return Answer(file.revision, build)

    def find_file(self, request: Request) -> DatabaseFile:
        """The file that a request names."""
        file = self._logdir.file(read_text(request, "file"))
        return recovered(file, may_write=self._writable)


def _summarise(file: DatabaseFile, known: _Summarised | None, writable: bool) -> _Summarised:
    """Read again only when the revision is new or reading had failed.

    Whatever is wrong with one file, the others are shown.
    """
    try:
        file = recovered(file, may_write=writable)
        if (
            known is not None
            and known.file.revision == file.revision
            and isinstance(known.content, Summary)
        ):
            return _Summarised(file, known.content)
        with open_database(file) as connection:
            return _Summarised(file, read_summary(connection))
    except ProblemError as error:
        return _Summarised(file, error.problem)
    except Exception:  # of one file; the others are shown all the same
        _log.exception("Could not summarise %s", file.path)
        return _Summarised(file, internal_error().problem)
