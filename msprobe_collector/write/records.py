"""The text of records. What is shown again, such as a tensor, is turned into text once."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import isfinite
from typing import Any

from msprobe_collector.one_pass import loaded

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

    __slots__ = ("row", "text")

    row: int  # of its sketch, where it has one
    text: str

    def __getattr__(self, name: str) -> str:
        if name != "text":
            raise AttributeError(name)
        text: str
        if loaded.compiled is not None:
            text = loaded.compiled.leaf_text(self)
        else:
            text = _encode_measured(self) if tuple(self) == _MEASURED else encode(self)
        self.text = text
        return text


if loaded.compiled is not None:
    loaded.compiled.know(Leaf, encode, encode_text)


_MEASURED = ("type", "dtype", "shape", "Max", "Min", "Mean", "Norm", "requires_grad")
_REMEMBERED = 4096
_heads: dict[tuple[Any, ...], str] = {}


def _encode_measured(record: Leaf) -> str:
    """As ``encode``, of a tensor: what stands before its numbers is made once for each shape."""
    kind, dtype, shape, high, low, mean, norm, takes_gradient = record.values()
    are_floats = type(high) is type(low) is type(mean) is type(norm) is float
    if not (are_floats and isfinite(high) and isfinite(low) and isfinite(mean) and isfinite(norm)):
        return encode(record)  # JSON has other names for those than Python
    key = (kind, dtype, *shape)
    head = _heads.get(key)
    if head is None:
        if len(_heads) >= _REMEMBERED:
            _heads.clear()
        head = encode({"type": kind, "dtype": dtype, "shape": shape, "Max": 0}).removesuffix("0}")
        _heads[key] = head
    numbers = f'{high!r}, "Min": {low!r}, "Mean": {mean!r}, "Norm": {norm!r}'
    return f'{head}{numbers}, "requires_grad": {"true" if takes_gradient else "false"}}}'


def shown_text(value: Any, leaves: list[Leaf]) -> str:
    """As :func:`record_text`; the leaves are appended to ``leaves`` as they come."""
    kind = type(value)
    if kind is Leaf:
        leaves.append(value)
        text: str = value.text
        return text
    if kind is list or kind is tuple:
        parts = []
        for part in value:
            if type(part) is Leaf:
                leaves.append(part)
                parts.append(part.text)
            else:
                parts.append(shown_text(part, leaves))
        return f"[{', '.join(parts)}]"
    if kind is dict and value:
        parts = [f"{encode_text(str(k))}: {shown_text(part, leaves)}" for k, part in value.items()]
        return f"{{{', '.join(parts)}}}"
    return record_text(value)


def record_text(value: Any) -> str:
    """As ``encode``, with the texts of the leaves that have been asked for before."""
    if loaded.compiled is not None:
        made: str = loaded.compiled.record_text(value)
        return made
    kind = type(value)
    if kind is Leaf:
        text: str = value.text
        return text
    if kind is list or kind is tuple:
        return f"[{', '.join([p.text if type(p) is Leaf else record_text(p) for p in value])}]"
    if kind is dict:
        if not value:
            return "{}"
        parts = [f"{encode_text(str(key))}: {record_text(part)}" for key, part in value.items()]
        return f"{{{', '.join(parts)}}}"
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    return encode(value)
