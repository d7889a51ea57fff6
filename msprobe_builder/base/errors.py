"""The one exception a user can cause."""

from __future__ import annotations


class BuildError(Exception):
    """The build cannot go on; the text is one sentence naming file, key and remedy."""


class UsageError(BuildError):
    """The command or its configuration is wrong, before any dump was read."""
