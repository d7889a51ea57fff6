"""Shapes and lists of whole numbers, which dumps hold as texts."""

from __future__ import annotations

from msprobe_builder.base.texts import Texts

LARGEST = 1 << 48  # elements; what says to have more is damaged


def parse_shape(texts: Texts, shape_id: int) -> list[int]:
    """Sizes of a shape's text; a scalar has none, nor has what is no shape."""
    return (parse_numbers(texts.values[shape_id]) or []) if shape_id >= 0 else []


def parse_numbers(text: str) -> list[int] | None:
    """Whole numbers of a text such as ``[8, 2]`` or ``3``, None when it holds something else."""
    parts = [part for part in text.strip("[]() ").split(",") if part.strip()]
    try:
        return [int(part) for part in parts]
    except ValueError:
        return None
