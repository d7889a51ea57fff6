"""Sending changes to the plugin, and a comparison that may be changed."""

from __future__ import annotations

import json
from typing import Any

from werkzeug.test import TestResponse

from tb_graph_ascend.generated import graph_pb2 as pb
from tests.plugin.conftest import Ask, catalog

JSON = {"Content-Type": "application/json"}


def post(ask: Ask, name: str, body: Any, headers: dict[str, str] | None = None) -> TestResponse:
    """Send ``body`` as JSON, the way a browser's own page does."""
    headers = JSON if headers is None else headers
    return ask(name, method="POST", data=json.dumps(body), headers=headers)


def report(response: TestResponse) -> pb.MatchReport:
    """The report of a change that was accepted."""
    assert response.status_code == 200, response.data
    return pb.MatchReport.FromString(response.data)


def revision_of(ask: Ask, file: str) -> str:
    [revision] = [one.revision for one in catalog(ask).files if one.file == file]
    return revision


def operation(npu: int, bench: int, action: str = "MATCH", **options: bool) -> dict[str, Any]:
    return {"action": f"MATCH_ACTION_{action}", "npu": npu, "bench": bench, **options}


def change(ask: Ask, file: str, *operations: dict[str, Any], **fields: Any) -> TestResponse:
    """Match or unmatch in step 0, rank 0 of ``file``, based on its present revision."""
    body = {"file": file, "revision": revision_of(ask, file), "operations": operations} | fields
    return post(ask, "match", body)
