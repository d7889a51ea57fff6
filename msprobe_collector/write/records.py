"""The text of records. What is shown again, such as a tensor, is turned into text once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

encode_text = json.encoder.encode_basestring_ascii
_make_encoder: Any = getattr(json.encoder, "c_make_encoder", None)


def _compact_encoder() -> Callable[[object], str]:
    """As ``json.dumps``, but made once instead of for each record."""
    if _make_encoder is None:
        return json.JSONEncoder(default=str, check_circular=False).encode
    chunks = _make_encoder(None, str, encode_text, None, ": ", ", ", False, False, True)
    return lambda value: "".join(chunks(value, 0))


encode = _compact_encoder()


class Leaf(dict[str, Any]):
    """The record of one value. It must be complete when its text is first asked for."""

    __slots__ = ("text",)

    text: str


def record_text(value: Any) -> str:
    """As ``encode``, with the texts of the leaves that have been asked for before."""
    if type(value) is Leaf:
        try:
            return value.text
        except AttributeError:
            text = value.text = encode(value)
            return text
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    kind = type(value)
    if kind is list:
        return f"[{', '.join([record_text(part) for part in value])}]"
    if kind is dict:
        parts = [f"{encode_text(str(key))}: {record_text(part)}" for key, part in value.items()]
        return f"{{{', '.join(parts)}}}"
    return encode(value)
