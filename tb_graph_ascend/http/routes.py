"""What each route answers: from the parameters of a request to a message."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import Message
from werkzeug.wrappers import Request

from tb_graph_ascend.encode.answers import encode_catalog, encode_file, encode_node
from tb_graph_ascend.encode.edits import encode_match_file
from tb_graph_ascend.encode.measures import encode_measures
from tb_graph_ascend.encode.search import encode_across, encode_candidates, encode_hits
from tb_graph_ascend.encode.skeleton import encode_skeleton
from tb_graph_ascend.files.discover import DatabaseFile, LogDirectory
from tb_graph_ascend.files.reading import reading
from tb_graph_ascend.files.recover import recovered
from tb_graph_ascend.files.writing import is_writable
from tb_graph_ascend.http.answers import Answer
from tb_graph_ascend.http.parameters import read_number, read_search, read_side, read_text
from tb_graph_ascend.problems import Problem, ProblemError
from tb_graph_ascend.query.across import read_across
from tb_graph_ascend.query.candidates import read_candidates
from tb_graph_ascend.query.edits import read_manual_matches
from tb_graph_ascend.query.measures import read_measures
from tb_graph_ascend.query.node import read_node
from tb_graph_ascend.query.search import search
from tb_graph_ascend.query.skeleton import read_skeleton
from tb_graph_ascend.query.summary import Summary, read_summary


@dataclass(frozen=True)
class _Summarised:
    """A file at one revision, and what it holds or why that cannot be shown."""

    file: DatabaseFile
    content: Summary | Problem


class Routes:
    """The data routes over one log directory."""

    def __init__(self, logdir: LogDirectory, *, writable: bool) -> None:
        self._logdir = logdir
        self._writable = writable
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
        catalog = encode_catalog(str(self._logdir.path or ""), encoded)
        # Locks and permissions change without a trace in any revision: the content is the tag.
        return Answer(catalog.SerializeToString(deterministic=True), lambda: catalog)

    def skeleton(self, request: Request) -> Answer:
        """The hierarchy of one graph."""
        file = self.find_file(request)
        step, rank = read_number(request, "step"), read_number(request, "rank")
        side = read_side(request, "side")

        def build() -> Message:
            with reading(file) as connection:
                skeleton = read_skeleton(connection, step, rank, side)
            return encode_skeleton(file.revision, skeleton)

        return Answer(file.revision, build)

    def node(self, request: Request) -> Answer:
        """One node with its partner."""
        file = self.find_file(request)
        step, rank = read_number(request, "step"), read_number(request, "rank")
        side, index = read_side(request, "side"), read_number(request, "index")

        def build() -> Message:
            with reading(file) as connection:
                detail = read_node(connection, step, rank, side, index)
            return encode_node(file.revision, detail)

        return Answer(file.revision, build)

    def search(self, request: Request) -> Answer:
        """Nodes of all steps and ranks."""
        file, wanted = self.find_file(request), read_search(request)

        def build() -> Message:
            with reading(file) as connection:
                hits, total = search(connection, wanted)
            return encode_hits(file.revision, hits, total, wanted.offset + len(hits))

        return Answer(file.revision, build)

    def candidates(self, request: Request) -> Answer:
        """Nodes of the other side that one may belong to."""
        file = self.find_file(request)
        step, rank = read_number(request, "step"), read_number(request, "rank")
        side, index = read_side(request, "side"), read_number(request, "index")

        def build() -> Message:
            with reading(file) as connection:
                found = read_candidates(connection, step, rank, side, index)
            return encode_candidates(file.revision, found)

        return Answer(file.revision, build)

    def across(self, request: Request) -> Answer:
        """One node in all steps and ranks."""
        file = self.find_file(request)
        name, side = read_text(request, "name"), read_side(request, "side")

        def build() -> Message:
            with reading(file) as connection:
                places = read_across(connection, name, side)
            return encode_across(file.revision, places)

        return Answer(file.revision, build)

    def measures(self, request: Request) -> Answer:
        """How far the outputs of each node are off, by the size of their tensors."""
        file = self.find_file(request)
        step, rank = read_number(request, "step"), read_number(request, "rank")

        def build() -> Message:
            with reading(file) as connection:
                measures = read_measures(connection, step, rank)
            return encode_measures(file.revision, measures)

        return Answer(file.revision, build)

    def matches(self, request: Request) -> Answer:
        """The matches made by hand, as a match file."""
        file = self.find_file(request)

        def build() -> Message:
            with reading(file) as connection:
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
        with reading(file) as connection:
            return _Summarised(file, read_summary(connection))
    except ProblemError as error:
        return _Summarised(file, error.problem)
