"""Messages as HTTP answers: protobuf or JSON, with an ETag; problems in one shape."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from sqlite3 import Connection

from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from werkzeug.wrappers import Request, Response

from tb_graph_ascend.encode.answers import encode_problem
from tb_graph_ascend.encode.encoded import Encoded
from tb_graph_ascend.http.at_once import AtOnce
from tb_graph_ascend.http.responses import (
    METHODS,
    is_known,
    make_etag,
    not_modified,
    pack,
    respond,
    takes_gzip,
)
from tb_graph_ascend.problems import ProblemError, bad_request, internal_error

JSON_TYPE = "application/json"
PROTOBUF_TYPE = "application/x-protobuf"
FORMATS = {"protobuf": PROTOBUF_TYPE, "json": JSON_TYPE}

Build = Callable[[Connection], Message | Encoded]  # an answer from an open file

_log = logging.getLogger(__name__)
# A restarted server may be a newer one that answers differently about the same file.
_SERVER = secrets.token_hex(4)
_at_once = AtOnce()


@dataclass(frozen=True)
class Answer:
    """A message that depends on nothing but the request and ``revision``."""

    revision: str | bytes
    build: Callable[[], Message | Encoded]


def answer(
    request: Request,
    question: Callable[[Request], Answer] | None,
    change: Callable[[Request], Message] | None,
) -> Response:
    """What a route answers to GET and to POST, or the problem that it met."""
    methods = (*(METHODS if question else ()), *(("POST",) if change else ()))
    try:
        if request.method not in methods:
            raise _method_not_allowed(request.method, methods)
        content_type = _content_type(request)
        if request.method == "POST":
            assert change is not None
            changed = _serialise(change(request), content_type)
            return respond(request, changed, content_type, cache="no-store")
        assert question is not None
        found = question(request)
        etag = make_etag(_SERVER, request.full_path, found.revision)
        if is_known(request, etag):
            return not_modified(etag)
        # The tag names all that the answer depends on but how it is packed.
        body = _at_once.make(
            f"{etag} {takes_gzip(request)}",
            lambda: pack(request, _serialise(found.build(), content_type)),
        )
    except ProblemError as error:
        return refuse(request, error, methods)
    except Exception:
        _log.exception("Could not answer %s", request.full_path)
        return refuse(request, internal_error(), methods)
    return respond(request, body, content_type, etag=etag)


def _content_type(request: Request) -> str:
    name = request.args.get("format", "protobuf")
    if name not in FORMATS:
        raise bad_request(
            "bad_parameter",
            f"Parameter format is {name[:80]!r}.",
            f"Leave it out or give one of: {', '.join(FORMATS)}.",
        )
    return FORMATS[name]


def _serialise(message: Message | Encoded, content_type: str) -> bytes:
    if isinstance(message, Encoded):
        if content_type == PROTOBUF_TYPE:
            return message.content
        message = message.message()
    if content_type == PROTOBUF_TYPE:
        return message.SerializeToString(deterministic=True)
    text = MessageToJson(message, always_print_fields_with_no_presence=True, indent=1)
    return text.encode("utf-8")


def refuse(request: Request, error: ProblemError, methods: tuple[str, ...]) -> Response:
    """The answer that tells a problem."""
    content_type = FORMATS.get(request.args.get("format", ""), PROTOBUF_TYPE)
    body = _serialise(encode_problem(error.problem), content_type)
    response = respond(request, body, content_type, status=error.status, cache="no-store")
    if error.status == HTTPStatus.METHOD_NOT_ALLOWED:
        response.headers["Allow"] = ", ".join(methods)
    return response


def _method_not_allowed(method: str, methods: tuple[str, ...]) -> ProblemError:
    return ProblemError(
        HTTPStatus.METHOD_NOT_ALLOWED,
        "method_not_allowed",
        f"{method[:80]} is not possible here.",
        f"Use {' or '.join(one for one in methods if one != 'HEAD')}.",
    )
