"""The body of a request that changes something: from our own page only, of a known form, not large.

Browsers send requests of any page to any server, so who asks is checked first. What a page of
another origin may send without being asked for leave has neither of the two content types.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TypeVar
from urllib.parse import urlsplit

from google.protobuf.json_format import Parse, ParseError
from google.protobuf.message import DecodeError, Message
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.wrappers import Request

from tb_graph_ascend.problems import ProblemError, bad_request

MAX_BODY = 8 * 1024 * 1024
CONTENT_TYPES = ("application/json", "application/x-protobuf")

Body = TypeVar("Body", bound=Message)


def read_body(request: Request, kind: type[Body]) -> Body:
    """The message in the request, or the reason to refuse it."""
    _require_same_origin(request)
    content_type = request.mimetype
    if content_type not in CONTENT_TYPES:
        raise ProblemError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "content_type",
            f"The request's Content-Type is {content_type[:80]!r}.",
            f"Send one of: {', '.join(CONTENT_TYPES)}.",
        )
    body = _read_bytes(request)
    message = kind()
    try:
        if content_type == CONTENT_TYPES[0]:
            Parse(body.decode("utf-8"), message, max_recursion_depth=20)
        else:
            message.ParseFromString(body)
    except (ParseError, DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(
            "bad_body",
            f"The request is no {kind.DESCRIPTOR.name}: {' '.join(str(error).split())[:200]}.",
            "Send the message that proto/graph.proto describes.",
        ) from error
    return message


def _require_same_origin(request: Request) -> None:
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    if site is not None:
        is_own = site in ("same-origin", "none")
    else:
        # A page of another origin cannot set X-Forwarded-Host without being asked for leave first.
        hosts = [request.headers.get(name) for name in ("Host", "X-Forwarded-Host")]
        is_own = origin is None or urlsplit(origin).netloc in filter(None, hosts)
    if not is_own:
        raise ProblemError(
            HTTPStatus.FORBIDDEN,
            "other_origin",
            "The request comes from a page of another origin.",
            "Open TensorBoard itself; a proxy in between must pass the Host header on,"
            " or send it as X-Forwarded-Host.",
        )


def _read_bytes(request: Request) -> bytes:
    request.max_content_length = MAX_BODY
    try:
        return request.get_data(cache=False)
    except RequestEntityTooLarge as error:
        raise ProblemError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            "too_large",
            f"The request is larger than {MAX_BODY // 1024 // 1024} MiB.",
            "Send it in parts.",
        ) from error
