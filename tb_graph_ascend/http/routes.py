"""What is asked about files: of one by the module of the question, of all by the catalog."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from google.protobuf.message import Message
from werkzeug.wrappers import Request

from msprobe_builder.database.file import DatabaseFile, is_writable
from msprobe_builder.database.read.summary import Summary, read_summary
from tb_graph_ascend.encode.answers import encode_catalog, encode_file
from tb_graph_ascend.encode.encoded import Encoded
from tb_graph_ascend.files.database import open_database, recover
from tb_graph_ascend.files.discover import LogDirectory
from tb_graph_ascend.http import questions
from tb_graph_ascend.http.answers import Answer, Build
from tb_graph_ascend.http.parameters import read_text
from tb_graph_ascend.problems import Problem, ProblemError, internal_error

CATALOG = "catalog"
Question = Callable[[Request, str], Build]

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
        self._questions: dict[str, Question] = {
            name: import_module(f"{questions.__name__}.{name}").question for name in questions.NAMES
        }

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

    def ask(self, name: str, request: Request) -> Answer:
        """What the question of this name finds in the file that the request names."""
        if name == CATALOG:
            return self.catalog(request)
        file = self.find_file(request)
        look_up = self._questions[name](request, file.revision)

        def build() -> Message | Encoded:
            with open_database(file) as connection:
                return look_up(connection)

        return Answer(file.revision, build)

    def find_file(self, request: Request) -> DatabaseFile:
        """The file that a request names."""
        file = self._logdir.file(read_text(request, "file"))
        return recover(file, may_write=self._writable)


def _summarise(file: DatabaseFile, known: _Summarised | None, writable: bool) -> _Summarised:
    """Read again only when the revision is new or reading had failed.

    Whatever is wrong with one file, the others are shown.
    """
    try:
        file = recover(file, may_write=writable)
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
