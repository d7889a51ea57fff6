"""The body of a request that changes something: from our own page only, of a known form, not large.

Browsers send requests of any page to any server, so who asks is checked first. What a page of
another origin may send without being asked for leave has neither of the two content types.
"""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import urlsplit

from google.protobuf.json_format import Parse, ParseError
from google.protobuf.message import DecodeError, Message
from werkzeug.exceptions import ClientDisconnected
from werkzeug.wrappers import Request

from tb_graph_ascend.http.hosts import is_trusted, split_origin
from tb_graph_ascend.limits import MAX_BODY
from tb_graph_ascend.problems import ProblemError, bad_request

CONTENT_TYPES = ("application/json", "application/x-protobuf")
_PIECE = 1 << 16

Body = TypeVar("Body", bound=Message)


def read_body(request: Request, kind: type[Body], allowed_hosts: Collection[str] = ()) -> Body:
    """The message in the request, or the reason to refuse it."""
    _require_own_page(request, allowed_hosts)
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
            message.SerializeToString()  # half a surrogate pair is found only now
        else:
            message.ParseFromString(body)
    # Parse lets a few errors of values through as they are.
    except (ParseError, DecodeError, ValueError, TypeError, RecursionError) as error:
        shown = " ".join(str(error).split())[:200].encode("utf-8", "backslashreplace").decode()
        raise bad_request(
            "bad_body",
            f"The request is no {kind.DESCRIPTOR.name}: {shown}.",
            "Send the message that proto/graph.proto describes.",
        ) from error
    return message


def _require_own_page(request: Request, allowed_hosts: Collection[str]) -> None:
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    if site is None and origin is None:
        return  # no browser: a script that may do whatever its user may
    host = request.headers.get("Host", "")
    page = split_origin(origin or f"http://{host}")
    if site is not None:
        is_own = site in ("same-origin", "none")
    else:
        # A page of another origin cannot set X-Forwarded-Host without being asked for leave first.
        hosts = [host, request.headers.get("X-Forwarded-Host")]
        is_own = page is not None and page.netloc in filter(None, hosts)
    if not is_own:
        raise _other_origin(host, origin)
    if page is not None and not is_trusted(page, allowed_hosts):
        raise unknown_host(page.hostname or "")


def unknown_host(name: str) -> ProblemError:
    """A page was opened at a name that a stranger may have let point here."""
    return ProblemError(
        HTTPStatus.FORBIDDEN,
        "unknown_host",
        f"The page was opened at {name[:80]}, a name that may be anybody's.",
        "Open it by https, by number or by this machine's own name, or start TensorBoard with"
        f" --graph_ascend_host {name[:80]}.",
    )


def _other_origin(host: str, origin: str | None) -> ProblemError:
    remedy = (
        "Open TensorBoard itself; a proxy in between must pass the Host header on,"
        " or send it as X-Forwarded-Host."
    )
    message = "The request comes from a page of another origin."
    page = split_origin(origin or "")
    if page is not None and page.hostname == (urlsplit(f"//{host}").hostname if host else None):
        message = f"The page is at {page.netloc[:80]}, but the request came for {host[:80]}."
        remedy = (
            "A proxy in between must pass on the port as well; for nginx:"
            " proxy_set_header Host $http_host;"
        )
    return ProblemError(HTTPStatus.FORBIDDEN, "other_origin", message, remedy)


def _read_bytes(request: Request) -> bytes:
    """The whole body, also one of unknown length; never more than is allowed."""
    length = request.content_length
    if length is not None and length > MAX_BODY:
        raise _too_large()
    body = bytearray()
    try:
        stream = request.stream
        while piece := stream.read(_PIECE):
            body += piece
            if len(body) > MAX_BODY:
                raise _too_large()
    except (ClientDisconnected, OSError) as error:  # a chunk of no known length is an OSError
        raise _cut_off() from error
    if length is not None and len(body) < length:
        raise _cut_off()
    return bytes(body)


def _too_large() -> ProblemError:
    return ProblemError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "too_large",
        f"The request is larger than {MAX_BODY // 1024 // 1024} MiB.",
        "Send it in parts.",
    )


def _cut_off() -> ProblemError:
    return bad_request("bad_body", "The request's body is cut off or damaged.", "Send it again.")
