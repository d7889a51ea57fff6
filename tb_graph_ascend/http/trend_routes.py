"""The routes of trends: their files, axes, windows, and the graphs of their places."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from sqlite3 import Connection

from google.protobuf.message import Message
from werkzeug.wrappers import Request

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.database.file import DatabaseFile
from msprobe_builder.database.trends.open import STATISTICS, opened_trend
from msprobe_builder.database.trends.read import read_axes, read_place
from msprobe_builder.trend.places import find_node
from tb_graph_ascend.encode.trends import (
    encode_axes,
    encode_moves,
    encode_places,
    encode_trends,
    encode_values,
)
from tb_graph_ascend.files.database import open_database
from tb_graph_ascend.files.discover import LogDirectory
from tb_graph_ascend.http.answers import Answer
from tb_graph_ascend.http.parameters import read_choice, read_number, read_optional, read_text
from tb_graph_ascend.limits import MAX_NUMBER, QUERY_SECONDS
from tb_graph_ascend.problems import ProblemError, bad_request, cannot_show, not_found
from tb_graph_ascend.query.trend_window import DIFFERENCES, Window, read_columns, read_moves

_MOST_COLUMNS = 4000
_MOST_NUMBERS = 100_000
_MOST_FILES = 200  # looked through for the graph of a place


class TrendRoutes:
    """The routes over the .trend.db files of one log directory, and the graphs beside them."""

    def __init__(self, trends: LogDirectory, graphs: LogDirectory) -> None:
        self._trends, self._graphs = trends, graphs

    def trends(self, _request: Request) -> Answer:
        """Every .trend.db below the log directory."""
        message = encode_trends(self._trends.files())
        return Answer(message.SerializeToString(deterministic=True), lambda: message)

    def trend(self, request: Request) -> Answer:
        """The axes of one file."""
        file = self._file(request)

        def build() -> Message:
            with _opened(file) as connection:
                return encode_axes(file.revision, read_axes(connection))

        return Answer(file.revision, build)

    def trend_values(self, request: Request) -> Answer:
        """The values of a window, or the difference to those of another file."""
        file, other, window = self._window(request)

        def build() -> Message:
            with _opened(file) as connection, _opened(other) if other else nullcontext() as second:
                steps, found = read_columns(connection, second, window)
            return encode_values(file.revision, steps, *found)

        return Answer(f"{file.revision}-{other.revision if other else ''}", build)

    def trend_moves(self, request: Request) -> Answer:
        """How much each target moves within a window."""
        file, other, window = self._window(request)

        def build() -> Message:
            with _opened(file) as connection, _opened(other) if other else nullcontext() as second:
                return encode_moves(file.revision, read_moves(connection, second, window))

        return Answer(f"{file.revision}-{other.revision if other else ''}", build)

    def trend_graphs(self, request: Request) -> Answer:
        """The graphs of a step and rank in which the module of a target stands."""
        file, target = self._file(request), read_number(request, "target")
        step, rank = read_number(request, "step"), read_number(request, "rank")
        files = self._graphs.files()[:_MOST_FILES]

        def build() -> Message:
            with _opened(file) as connection:
                place = read_place(connection, target)
            if place is None:
                raise not_found(
                    "unknown_target",
                    f"The file has no target {target}.",
                    "Choose a number below that of the targets that trend answers.",
                )
            return encode_places(_places(files, step, rank, place.module, place.node))

        return Answer("-".join((file.revision, *(one.revision for one in files))), build)

    def _window(self, request: Request) -> tuple[DatabaseFile, DatabaseFile | None, Window]:
        file = self._file(request)
        name = read_optional(request, "other")
        window = Window(
            read_choice(request, "statistic", STATISTICS, STATISTICS[0]),
            _numbers("targets", read_text(request, "targets")),
            _numbers("ranks", read_text(request, "ranks")),
            read_number(request, "first"),
            read_number(request, "last"),
            min(_MOST_COLUMNS, max(1, read_number(request, "columns"))),
            read_choice(request, "difference", DIFFERENCES, DIFFERENCES[0]),
        )
        return file, self._trends.file(name) if name else None, window

    def _file(self, request: Request) -> DatabaseFile:
        return self._trends.file(read_text(request, "file"))


def _places(
    files: list[DatabaseFile], step: int, rank: int, module: str | None, node: str | None
) -> Iterator[tuple[str, str]]:
    for file in files:
        try:
            with open_database(file) as connection:
                found = find_node(connection, step, rank, module)
        except ProblemError:
            continue  # the catalog says what is wrong with it
        if found is not None:
            yield file.name, node or found


@contextmanager
def _opened(file: DatabaseFile) -> Iterator[Connection]:
    """A file to read; trouble ends in a ProblemError."""
    try:
        with opened_trend(file.path, file.name, QUERY_SECONDS) as connection:
            yield connection
    except (BuildError, UsageError) as error:
        remedy = "Make it again with msprobe-build trend."
        raise cannot_show("unreadable_trend", str(error), remedy) from error


def _numbers(name: str, given: str) -> tuple[int, ...]:
    """``3,5-7`` as numbers."""
    found: list[int] = []
    for part in given.split(","):
        match = re.fullmatch(r"(\d{1,10})(?:-(\d{1,10}))?", part, re.ASCII)
        low = int(match[1]) if match else 1
        high = (int(match[2]) if match[2] else low) if match else 0
        if not low <= high <= MAX_NUMBER or len(found) + high - low >= _MOST_NUMBERS:
            raise bad_request(
                "bad_parameter",
                f"Parameter {name} is {given[:80]!r}, not a list of numbers.",
                f"Give {name} as numbers and ranges, at most {_MOST_NUMBERS}: 0,3,5-9.",
            )
        found.extend(range(low, high + 1))
    return tuple(dict.fromkeys(found))
