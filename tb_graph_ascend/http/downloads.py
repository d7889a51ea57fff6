"""Tables as files to download: of a graph, of a node, of what a search finds."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from http import HTTPStatus
from sqlite3 import Connection

from werkzeug.wrappers import Request, Response
from werkzeug.wsgi import wrap_file

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.publish import scratch_folder
from msprobe_builder.database.file import DatabaseFile
from msprobe_builder.database.read.graphs import BENCH, NPU, last_inside
from msprobe_builder.database.read.meta import read_side_names
from msprobe_builder.database.read.search import MAX_PAGE, search
from msprobe_builder.database.read.tree import of_micro_step
from msprobe_builder.facts.wording import calling, speaking
from msprobe_builder.tables.selection import Key, places_of, write_selection
from tb_graph_ascend.files.database import open_database
from tb_graph_ascend.http.answers import refuse
from tb_graph_ascend.http.parameters import (
    read_choice,
    read_language,
    read_number,
    read_search,
    read_side,
)
from tb_graph_ascend.http.responses import METHODS, SECURITY_HEADERS
from tb_graph_ascend.problems import ProblemError, cannot_show, internal_error
from tb_graph_ascend.query.expressions import matching
from tb_graph_ascend.query.wanted import wanted_graph, wanted_node

FORMS = {
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "csv": "text/csv; charset=utf-8",
}
SELECTIONS = ("graph", "node", "search")
Wanted = dict[Key, set[int] | None]

_log = logging.getLogger(__name__)


def download_table(request: Request, find_file: Callable[[Request], DatabaseFile]) -> Response:
    """The table of what ``of`` says: ``graph``, ``node`` or ``search``."""
    try:
        if request.method not in METHODS:
            raise ProblemError(
                HTTPStatus.METHOD_NOT_ALLOWED,
                "method_not_allowed",
                f"{request.method[:80]} is not possible here.",
                "Use GET.",
            )
        form = read_choice(request, "form", tuple(FORMS), "xlsx")
        selection = read_choice(request, "of", SELECTIONS, "graph")
        file = find_file(request)
        with (
            open_database(file) as connection,
            speaking(read_language(request)),
            calling(read_side_names(connection)),
        ):
            wanted = _WANTED[selection](connection, request)
            return _written(connection, wanted, form)
    except ProblemError as error:
        return refuse(request, error, METHODS)
    except UsageError as error:  # a library is missing
        problem = ProblemError(
            HTTPStatus.NOT_IMPLEMENTED, "missing_library", str(error), "Ask for form=csv meanwhile."
        )
        return refuse(request, problem, METHODS)
    except BuildError as error:
        remedy = "Dump with task statistics or tensor."
        return refuse(request, cannot_show("no_table", str(error), remedy), METHODS)
    except Exception:
        _log.exception("Could not write the table of %s", request.full_path)
        return refuse(request, internal_error(), METHODS)


def _written(connection: Connection, wanted: Wanted, form: str) -> Response:
    """The file, which is gone from the disk once it was sent."""
    with scratch_folder("graph_ascend_table") as folder:
        path = folder / f"table.{form}"
        write_selection(connection, path, wanted)
        stream = path.open("rb")  # keeps the content when the folder goes
        size = path.stat().st_size
    response = Response(wrap_file({}, stream), content_type=FORMS[form], direct_passthrough=True)
    response.call_on_close(stream.close)
    response.headers["Content-Disposition"] = f'attachment; filename="table.{form}"'
    response.headers["Content-Length"] = str(size)
    response.headers["Cache-Control"] = "no-store"
    response.headers.update(SECURITY_HEADERS)
    return response


def _graph(connection: Connection, request: Request) -> Wanted:
    step, rank = read_number(request, "step"), read_number(request, "rank")
    wanted_graph(connection, step, rank, NPU)
    return {(step, rank): None}


def _node(connection: Connection, request: Request) -> Wanted:
    """One node; with ``inside`` the calls inside it as well."""
    step, rank = read_number(request, "step"), read_number(request, "rank")
    graph = wanted_graph(connection, step, rank, read_side(request, "side"))
    first = last = wanted_node(graph, read_number(request, "index"))
    if read_choice(request, "inside", ("0", "1"), "0") == "1":
        last = last_inside(connection, graph, first)
    return {(step, rank): set(range(first, last + 1))}


def _search(connection: Connection, request: Request) -> Wanted:
    wanted: defaultdict[Key, set[int]] = defaultdict(set)
    places = places_of(connection)
    offset, total = 0, 1
    while offset < total:
        page, total = search(
            connection, read_search(request, offset=offset, limit=MAX_PAGE), matching
        )
        for hit in page:
            place = places[hit.step, hit.rank]
            nodes = place.bench if hit.side == BENCH else place.npu
            wanted[hit.step, hit.rank].add(nodes.start + hit.index)
        offset += MAX_PAGE
    if "micro" not in request.args:
        return dict(wanted)
    micro = read_number(request, "micro")
    return {key: of_micro_step(connection, nodes, micro) for key, nodes in wanted.items()}


_WANTED: dict[str, Callable[[Connection, Request], Wanted]] = {
    "graph": _graph,
    "node": _node,
    "search": _search,
}
