"""Counts in sentences."""


def counted(count: int, what: str) -> str:
    """``1 rank``, ``2 ranks``, ``1,024 ranks``: the singular is given, regular words only."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
