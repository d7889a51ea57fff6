"""The TensorBoard plugin: its name, its tab and its routes.

TensorBoard imports this module at start-up, and stops if that fails. So whatever reads databases
or speaks protobuf is imported with the first request.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from importlib import metadata
from typing import TYPE_CHECKING, Any

from tensorboard.plugins import base_plugin
from werkzeug.wrappers import Request, Response

from tb_graph_ascend.files.discover import TREND_SUFFIX, LogDirectory
from tb_graph_ascend.http import questions, static_files
from tb_graph_ascend.http.hosts import listens_for_others, may_read
from tb_graph_ascend.http.responses import respond

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from tb_graph_ascend.http.change_routes import ChangeRoutes
    from tb_graph_ascend.http.routes import Routes
    from tb_graph_ascend.http.trend_routes import TrendRoutes

QUESTIONS = ("catalog", *questions.NAMES)
TRENDS = ("trends", "trend", "trend_values", "trend_moves", "trend_graphs")
CHANGES = ("match", "undo", "redo", "matches", "convert")
DISTRIBUTION = "msprobe-graph"
DATA_ROUTES = tuple(dict.fromkeys((*QUESTIONS, *TRENDS, *CHANGES)))

# Files to download, no messages.
TABLE = "table"
REPORT = "report"

_log = logging.getLogger(__name__)


class GraphAscendPlugin(base_plugin.TBPlugin):  # type: ignore[misc]
    """Shows compared model hierarchies below the log directory."""

    plugin_name = "graph_ascend"

    def __init__(self, context: base_plugin.TBContext) -> None:
        self._logdir = LogDirectory(context.logdir)
        self._readonly = bool(getattr(context.flags, "graph_ascend_readonly", False))
        # The name TensorBoard was told to listen at is one that its user vouches for.
        names = (
            getattr(context.flags, "host", None),
            *(getattr(context.flags, "graph_ascend_host", None) or ()),
        )
        self._hosts = tuple(one for name in names if name for one in name.split(","))
        self._open_to_network = listens_for_others(
            names[0], bind_all=bool(getattr(context.flags, "bind_all", False))
        )
        self._trend_files = LogDirectory(context.logdir, TREND_SUFFIX)
        self._questions: Routes | None = None
        self._trends: TrendRoutes | None = None
        self._changes: ChangeRoutes | None = None

    def is_active(self) -> bool:
        """Whether there is any file to show."""
        return self._logdir.holds_files() or self._trend_files.holds_files()

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        """The module that draws the tab."""
        return base_plugin.FrontendMetadata(es_module_path="/index.js", tab_name="GRAPH_ASCEND")

    def get_plugin_apps(self) -> dict[str, Callable[..., Any]]:
        """Every route, relative to data/plugin/graph_ascend."""
        static = Request.application(static_files.serve)
        data = {f"/{name}": self._read_by_us(self._data_app(name)) for name in DATA_ROUTES}
        files = {
            f"/{TABLE}": self._read_by_us(self._table),
            f"/{REPORT}": self._read_by_us(self._report),
        }
        return {"/index.js": static, "/assets/*": static, **files, **data}

    def _read_by_us(self, app: Callable[[Request], Response]) -> Callable[..., Any]:
        """The same, not answered to pages at a name that may be anybody's."""

        def guarded(request: Request) -> Response:
            host, site = request.headers.get("Host", ""), request.headers.get("Sec-Fetch-Site")
            # Of POST more is asked, see bodies.py.
            if request.method == "POST" or may_read(host, site, self._hosts):
                return app(request)
            from tb_graph_ascend.http.answers import refuse
            from tb_graph_ascend.http.bodies import unknown_host

            return refuse(request, unknown_host(host.rpartition(":")[0] or host), ())

        return Request.application(guarded)

    def _data_app(self, name: str) -> Callable[[Request], Response]:
        def change(request: Request) -> Message:
            found: Message = getattr(self._load_changes(), name)(request)
            return found

        def app(request: Request) -> Response:
            try:
                from tb_graph_ascend.http.answers import answer

                question = None
                if name in TRENDS:
                    question = getattr(self._load_trends(), name)
                elif name in QUESTIONS:
                    question = partial(self._load_questions().ask, name)
            except Exception:
                _log.exception("The plugin graph_ascend is not installed properly.")
                return _broken_installation(request)
            return answer(request, question, change if name in CHANGES else None)

        return app

    def _table(self, request: Request) -> Response:
        try:
            from tb_graph_ascend.http.downloads import download_table

            questions = self._load_questions()
        except Exception:
            _log.exception("The plugin graph_ascend is not installed properly.")
            return _broken_installation(request)
        return download_table(request, questions.find_file)

    def _report(self, request: Request) -> Response:
        try:
            from tb_graph_ascend.http.reports import download_report

            questions = self._load_questions()
        except Exception:
            _log.exception("The plugin graph_ascend is not installed properly.")
            return _broken_installation(request)
        return download_report(request, questions.find_file)

    def _load_questions(self) -> Routes:
        from tb_graph_ascend.http.routes import Routes

        if self._questions is None:
            self._questions = Routes(
                self._logdir, writable=not self._readonly, open_to_network=self._open_to_network
            )
        return self._questions

    def _load_trends(self) -> TrendRoutes:
        from tb_graph_ascend.http.trend_routes import TrendRoutes

        if self._trends is None:
            self._trends = TrendRoutes(self._trend_files, self._logdir)
        return self._trends

    def _load_changes(self) -> ChangeRoutes:
        """Only now the builder is loaded; who only looks does without it."""
        from tb_graph_ascend.http.change_routes import ChangeRoutes

        if self._changes is None:
            self._changes = ChangeRoutes(
                self._logdir, writable=not self._readonly, hosts=self._hosts
            )
        return self._changes


class GraphAscendLoader(base_plugin.TBLoader):  # type: ignore[misc]
    """Adds the plugin's option to TensorBoard's command line."""

    def define_flags(self, parser: argparse.ArgumentParser) -> None:
        """``--graph_ascend_readonly`` and ``--graph_ascend_host``."""
        group = parser.add_argument_group("graph_ascend plugin")
        group.add_argument(
            "--graph_ascend_readonly",
            action="store_true",
            help="let nobody match nodes by hand: never write to .vis.db files",
        )
        group.add_argument(
            "--graph_ascend_host",
            "--graph_ascend_hosts",
            action="append",
            metavar="NAME",
            help="a name at which this TensorBoard is opened without https, when it is neither of"
            " this machine nor of its network: it answers there; several with commas, or often",
        )

    def load(self, context: base_plugin.TBContext) -> GraphAscendPlugin:
        """The plugin itself; ends TensorBoard with one sentence where another has its name."""
        others = _others_of_this_name()
        if others:
            # TensorBoard would end as well, with a traceback that names neither of the two.
            raise SystemExit(
                f"TensorBoard cannot start: {' and '.join(others)} provides the same tab,"
                f" {GraphAscendPlugin.plugin_name}, as {DISTRIBUTION}. Remove one of them:"
                f" pip uninstall {others[0]}"
            )
        return GraphAscendPlugin(context)


def _others_of_this_name() -> list[str]:
    """Distributions that bring a plugin of the same name, as the reference tool's viewer does."""
    found = metadata.entry_points(group="tensorboard_plugins", name=GraphAscendPlugin.plugin_name)
    names = {one.dist.name for one in found if one.dist is not None}
    return sorted(name for name in names if name.lower().replace("_", "-") != DISTRIBUTION)


def _broken_installation(request: Request) -> Response:
    problem = {
        "code": "broken_installation",
        "message": "A part of the plugin cannot be loaded.",
        "remedy": "Install msprobe-graph again; TensorBoard's log has the reason.",
    }
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    return respond(request, json.dumps(problem).encode(), "application/json", status=status)
