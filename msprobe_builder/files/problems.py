"""What is wrong with a file from outside."""

from __future__ import annotations

from msprobe_builder.base.errors import BuildError


class FileError(BuildError):
    """A file that cannot be used; ``code`` is stable, message and remedy are sentences.

    ``may_pass`` says that the same may succeed a moment later.
    """

    def __init__(self, code: str, message: str, remedy: str, *, may_pass: bool = False) -> None:
        super().__init__(f"{message} {remedy}")
        self.code = code
        self.message = message
        self.remedy = remedy
        self.may_pass = may_pass
