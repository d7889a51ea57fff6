"""How many times something is, as people read it."""

from __future__ import annotations

_BEYOND_DOUBT = 1000


def multiple(times: float) -> str:
    """Two digits; what is beyond all doubt needs none."""
    if times > _BEYOND_DOUBT:
        return f"more than {_BEYOND_DOUBT:,}"
    return f"{times:.2g}" if times < 99.5 else f"{float(f'{times:.2g}'):,.0f}"
