"""The one exception a user of the collector can meet."""

from __future__ import annotations


class CollectorError(ValueError):
    """A wrong setting or a wrong call; the message is one sentence with its remedy."""
