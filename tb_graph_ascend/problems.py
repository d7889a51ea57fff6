"""What can go wrong with a request or a file, as one sentence and a remedy."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msprobe_builder.files.problems import FileError

# Of problems of a file, where it says more than that the file cannot be shown.
STATUSES = {
    "disk_full": HTTPStatus.INSUFFICIENT_STORAGE,
    "no_locks": HTTPStatus.FORBIDDEN,
    "read_only": HTTPStatus.FORBIDDEN,
}


@dataclass(frozen=True)
class Problem:
    """Body of an answer that is not the one asked for; ``code`` is stable, the rest is prose."""

    code: str
    message: str
    remedy: str
    revision: str = ""  # of the file now, when the request was based on another one


class ProblemError(Exception):
    """Ends a request with ``problem`` and an HTTP status of 400 or above."""

    def __init__(
        self, status: HTTPStatus, code: str, message: str, remedy: str, revision: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.problem = Problem(code, message, remedy, revision)


def internal_error() -> ProblemError:
    """A fault of ours; details belong in the log, not in the answer."""
    return ProblemError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "internal",
        "The server failed to answer this request.",
        "See the log of TensorBoard for the reason, and report it.",
    )


def bad_request(code: str, message: str, remedy: str) -> ProblemError:
    """The request itself is wrong."""
    return ProblemError(HTTPStatus.BAD_REQUEST, code, message, remedy)


def not_found(code: str, message: str, remedy: str) -> ProblemError:
    """The request is well formed, but names something that is not there."""
    return ProblemError(HTTPStatus.NOT_FOUND, code, message, remedy)


def cannot_show(code: str, message: str, remedy: str) -> ProblemError:
    """The file is there, but its content cannot be shown."""
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, code, message, remedy)


def conflict(code: str, message: str, remedy: str, revision: str = "") -> ProblemError:
    """The file is not as the request takes it to be."""
    return ProblemError(HTTPStatus.CONFLICT, code, message, remedy, revision)


def try_again(code: str, message: str, remedy: str) -> ProblemError:
    """The file can be shown, but not now."""
    return ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, code, message, remedy)


def problem_of(error: FileError) -> ProblemError:
    """What is wrong with a file, as an answer."""
    usual = HTTPStatus.SERVICE_UNAVAILABLE if error.may_pass else HTTPStatus.UNPROCESSABLE_ENTITY
    return ProblemError(STATUSES.get(error.code, usual), error.code, error.message, error.remedy)
