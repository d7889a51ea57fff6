"""What a database holds as one HTML file to download."""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus

from werkzeug.wrappers import Request, Response

from msprobe_builder.database.file import DatabaseFile
from msprobe_builder.database.read.meta import read_side_names
from msprobe_builder.export.report_content import read_report
from msprobe_builder.export.report_page import page
from msprobe_builder.facts.wording import calling, speaking
from tb_graph_ascend.files.database import open_database
from tb_graph_ascend.http.answers import refuse
from tb_graph_ascend.http.parameters import read_language
from tb_graph_ascend.http.responses import METHODS, SECURITY_HEADERS
from tb_graph_ascend.problems import ProblemError, internal_error

_NODES = 20  # as many of the worst as the command shows

_log = logging.getLogger(__name__)


def download_report(request: Request, find_file: Callable[[Request], DatabaseFile]) -> Response:
    """The report of a file, as ``msprobe-build report`` writes it."""
    try:
        if request.method not in METHODS:
            raise ProblemError(
                HTTPStatus.METHOD_NOT_ALLOWED,
                "method_not_allowed",
                f"{request.method[:80]} is not possible here.",
                "Use GET.",
            )
        file = find_file(request)
        with (
            open_database(file) as connection,
            speaking(read_language(request)),
            calling(read_side_names(connection)),
        ):
            text = page(read_report(connection, _NODES, file.name.rpartition("/")[2]))
    except ProblemError as error:
        return refuse(request, error, METHODS)
    except Exception:
        _log.exception("Could not write the report of %s", request.full_path)
        return refuse(request, internal_error(), METHODS)
    content = text.encode("utf-8", errors="replace")
    response = Response(content, content_type="text/html; charset=utf-8")
    response.headers["Content-Disposition"] = 'attachment; filename="report.html"'
    response.headers["Cache-Control"] = "no-store"
    response.headers.update(SECURITY_HEADERS)
    return response
