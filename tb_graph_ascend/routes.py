"""What each route answers: from the parameters of a request to a message."""

from __future__ import annotations

from google.protobuf.message import Message
from werkzeug.wrappers import Request

from tb_graph_ascend.answers import Answer
from tb_graph_ascend.database import open_database
from tb_graph_ascend.discover import DatabaseFile, LogDirectory
from tb_graph_ascend.encode import encode_catalog, encode_file, encode_node
from tb_graph_ascend.encode_edits import encode_match_file
from tb_graph_ascend.encode_search import encode_across, encode_candidates, encode_hits
from tb_graph_ascend.encode_skeleton import encode_skeleton
from tb_graph_ascend.parameters import read_number, read_search, read_side, read_text
from tb_graph_ascend.problems import Problem, ProblemError
from tb_graph_ascend.query_across import read_across
from tb_graph_ascend.query_candidates import read_candidates
from tb_graph_ascend.query_edits import read_manual_matches
from tb_graph_ascend.query_node import read_node
from tb_graph_ascend.query_search import search
from tb_graph_ascend.query_skeleton import read_skeleton
from tb_graph_ascend.query_summary import Summary, read_summary
from tb_graph_ascend.recover import recovered
from tb_graph_ascend.writing import is_writable


class Routes:
    """The data routes over one log directory."""

    def __init__(self, logdir: LogDirectory, *, writable: bool) -> None:
        self._logdir = logdir
        self._writable = writable
        self._summaries: dict[str, tuple[str, Summary | Problem]] = {}

    def catalog(self, _request: Request) -> Answer:
        """Every file below the log directory and what it holds."""
        files = [recovered(file) for file in self._logdir.files()]
        known = self._summaries
        summaries = {file.name: _summarise(file, known.get(file.name)) for file in files}
        self._summaries = summaries
        encoded = [
            encode_file(file, summaries[file.name][1], self._writable and is_writable(file))
            for file in files
        ]
        catalog = encode_catalog(str(self._logdir.path or ""), encoded)
        # Locks and permissions change without a trace in any revision: the content is the tag.
        return Answer(catalog.SerializeToString(deterministic=True), lambda: catalog)

    def skeleton(self, request: Request) -> Answer:
        """The hierarchy of one graph."""
        file = self._file(request)
        step, rank = read_number(request, "step"), read_number(request, "rank")
        side = read_side(request, "side")

        def build() -> Message:
            with open_database(file) as connection:
                skeleton = read_skeleton(connection, step, rank, side)
            return encode_skeleton(file.revision, skeleton)

        return Answer(file.revision, build)

    def node(self, request: Request) -> Answer:
        """One node with its partner."""
        file = self._file(request)
        step, rank = read_number(request, "step"), read_number(request, "rank")
        side, index = read_side(request, "side"), read_number(request, "index")

        def build() -> Message:
            with open_database(file) as connection:
                detail = read_node(connection, step, rank, side, index)
            return encode_node(file.revision, detail)

        return Answer(file.revision, build)

    def search(self, request: Request) -> Answer:
        """Nodes of all steps and ranks."""
        file, wanted = self._file(request), read_search(request)

        def build() -> Message:
            with open_database(file) as connection:
                hits, total = search(connection, wanted)
            return encode_hits(file.revision, hits, total, wanted.offset + len(hits))

        return Answer(file.revision, build)

    def candidates(self, request: Request) -> Answer:
        """Nodes of the other side that one may belong to."""
        file = self._file(request)
        step, rank = read_number(request, "step"), read_number(request, "rank")
        side, index = read_side(request, "side"), read_number(request, "index")

        def build() -> Message:
            with open_database(file) as connection:
                found = read_candidates(connection, step, rank, side, index)
            return encode_candidates(file.revision, found)

        return Answer(file.revision, build)

    def across(self, request: Request) -> Answer:
        """One node in all steps and ranks."""
        file = self._file(request)
        name, side = read_text(request, "name"), read_side(request, "side")

        def build() -> Message:
            with open_database(file) as connection:
                places = read_across(connection, name, side)
            return encode_across(file.revision, places)

        return Answer(file.revision, build)

    def matches(self, request: Request) -> Answer:
        """The matches made by hand, as a match file."""
        file = self._file(request)

        def build() -> Message:
            with open_database(file) as connection:
                return encode_match_file(read_manual_matches(connection))

        return Answer(file.revision, build)

    def _file(self, request: Request) -> DatabaseFile:
        return recovered(self._logdir.file(read_text(request, "file")))


def _summarise(
    file: DatabaseFile, known: tuple[str, Summary | Problem] | None
) -> tuple[str, Summary | Problem]:
    """Revision and content; read again only when the revision is new or reading had failed."""
    if known is not None and known[0] == file.revision and isinstance(known[1], Summary):
        return known
    try:
        with open_database(file) as connection:
            return file.revision, read_summary(connection)
    except ProblemError as error:
        return file.revision, error.problem
