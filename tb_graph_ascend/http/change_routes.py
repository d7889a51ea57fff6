"""Requests that change matches: from a message to a transaction, and what it did as a message."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from http import HTTPStatus
from typing import TypeVar

from google.protobuf.message import Message
from werkzeug.wrappers import Request

from msprobe_builder.base.errors import BuildError, UsageError
from tb_graph_ascend.edit.convert import convert
from tb_graph_ascend.edit.matching import import_file, match, redo_next, undo_last
from tb_graph_ascend.files.database import recover
from tb_graph_ascend.files.discover import LogDirectory
from tb_graph_ascend.files.writing import write
from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.http.bodies import read_body
from tb_graph_ascend.limits import MAX_TEXT
from tb_graph_ascend.problems import ProblemError, bad_request, cannot_show

Body = TypeVar("Body", pb.MatchRequest, pb.UndoRequest, pb.ImportRequest)
Work = Callable[[sqlite3.Connection, Body, pb.MatchReport], None]


class ChangeRoutes:
    """The routes that write, over one log directory."""

    def __init__(
        self, logdir: LogDirectory, *, writable: bool, hosts: tuple[str, ...] = ()
    ) -> None:
        self._logdir = logdir
        self._writable = writable
        self._hosts = hosts  # names that pages may have beside those of this machine

    def match(self, request: Request) -> Message:
        """Match and unmatch by hand."""
        return self._change(read_body(request, pb.MatchRequest, self._hosts), match)

    def undo(self, request: Request) -> Message:
        """Take back the last change."""
        return self._change(read_body(request, pb.UndoRequest, self._hosts), undo_last)

    def redo(self, request: Request) -> Message:
        """Do the change again that was undone last."""
        return self._change(read_body(request, pb.UndoRequest, self._hosts), redo_next)

    def matches(self, request: Request) -> Message:
        """Match the pairs of a match file."""
        return self._change(read_body(request, pb.ImportRequest, self._hosts), import_file)

    def convert(self, request: Request) -> Message:
        """Write a file of the reference tool as one of ours, beside it."""
        body = read_body(request, pb.ConvertRequest, self._hosts)
        self._require_leave()
        made = convert(self._logdir.file(body.file))
        self._logdir.look_again()
        return pb.Converted(file=made)

    def _require_leave(self) -> None:
        if not self._writable:
            raise ProblemError(
                HTTPStatus.FORBIDDEN,
                "forbidden",
                "This TensorBoard was started with --graph_ascend_readonly.",
                "Start it without this option to change matches.",
            )

    def _change(self, body: Body, work: Work[Body]) -> Message:
        self._require_leave()
        for field in ("author", "reason"):  # which undoing has not
            if len(getattr(body, field, "")) > MAX_TEXT:
                raise bad_request(
                    "bad_body",
                    f"The {field} is longer than {MAX_TEXT} characters.",
                    "Shorten it.",
                )
        file = recover(self._logdir.file(body.file), may_write=True)
        report = pb.MatchReport(dry_run=body.dry_run)

        def change(connection: sqlite3.Connection) -> None:
            _translate_errors(lambda: work(connection, body, report))

        _, report.revision = write(file, body.revision, change, dry_run=body.dry_run)
        return report


def _translate_errors(work: Callable[[], None]) -> None:
    """Errors of the builder's functions in the server's terms."""
    try:
        work()
    except UsageError as error:
        raise bad_request(
            "bad_match_file", str(error), "Export matches to see the form of such a file."
        ) from error
    except BuildError as error:
        raise cannot_show(
            "cannot_measure",
            f"The pair cannot be compared: {error}",
            "Do so in the environment that TensorBoard runs in, then match again.",
        ) from error
