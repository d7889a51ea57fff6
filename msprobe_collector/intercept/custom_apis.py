"""Functions that the user names as API calls: ``register_custom_api(module, "fused_norm")``."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from msprobe_collector.errors import CollectorError
from msprobe_collector.record.session import Session

# ``(label, function, args, kwargs, frame)``: run a function as the API call of that name.
Record = Callable[
    [str, Callable[..., Any], tuple[Any, ...], dict[str, Any], FrameType],
    Any,
]


class CustomApis:
    """Registered functions; they are recorded between start and stop until they are restored."""

    def __init__(
        self, session: Session, record: Record, is_staged: Callable[[], bool] = bool
    ) -> None:
        """Calls that ``is_staged`` says compute no numbers are passed on."""
        self._session = session
        self._record = record
        self._is_staged = is_staged
        self._originals: dict[tuple[int, str], tuple[Any, Any, Any]] = {}

    def register(self, module: Any, api: str, prefix: str | None) -> None:
        """Record calls of ``module.api`` as ``prefix.api``; the module's name is the default."""
        function = getattr(module, api, None)
        if not callable(function):
            raise CollectorError(f"{module!r} has no function {api!r} to record.")
        if (id(module), api) in self._originals:
            return
        name = prefix or str(getattr(module, "__name__", type(module).__name__))
        label = f"{name.rpartition('.')[2]}.{api}"
        session, record, is_staged = self._session, self._record, self._is_staged

        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            threads = session.threads
            idle = not session.active or not threads.sees_calls or not session.config.with_apis
            if idle or threads.hides_calls or is_staged():
                return function(*args, **kwargs)
            frame = sys._getframe(1)
            threads.hides_calls = True  # what it calls is part of it
            try:
                return record(label, function, args, kwargs, frame)
            finally:
                threads.hides_calls = False

        self._originals[id(module), api] = (module, function, recorded)
        setattr(module, api, recorded)

    def restore(self, module: Any, api: str) -> None:
        """Give ``module.api`` back as it was."""
        found = self._originals.pop((id(module), api), None)
        if found is None:
            raise CollectorError(f"{api!r} of {module!r} was not registered.")
        _, function, recorded = found
        if getattr(module, api, None) is recorded:
            setattr(module, api, function)

    def restore_all(self) -> None:
        for (_, api), (module, _, _) in list(self._originals.items()):
            self.restore(module, api)
