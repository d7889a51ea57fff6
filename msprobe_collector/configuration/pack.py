"""What a training is set up with, in one zip: the part of it that needs no framework."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msprobe_builder.base.publish import temporary_name
from msprobe_builder.configuration.secrets import allowed_variables
from msprobe_checks.configuration.collect import installed_packages, options_in, write_pack
from msprobe_collector.errors import CollectorError
from msprobe_collector.signals import pass_on_if_of_signal

_log = logging.getLogger("msprobe_collector")
_DEEPEST = 10  # lists and mappings inside each other
Statistics = Callable[[Any], "dict[str, Any] | None"]


class Pack:
    """Environment, packages and options at once, weights and inputs as forward calls come.

    Each rank writes a file of its own, ``….rank1.zip`` beside the one that was named.
    """

    def __init__(
        self,
        shell_path: Sequence[str | Path] | str | None,
        output: str | Path,
        micro_steps: int,
        statistics: Statistics,
        rank: Callable[[], int],
    ) -> None:
        """``statistics`` describes tensors, and answers None for other values.

        CollectorError when a setting is wrong.
        """
        if isinstance(micro_steps, bool) or not 1 <= micro_steps <= 1000:
            raise CollectorError(f"micro_steps is {micro_steps!r}; give a number from 1 to 1000.")
        paths = [shell_path] if isinstance(shell_path, str) else list(shell_path or ())
        self._options = {Path(path).name: options_in(Path(path)) for path in paths}
        self._output = Path(output)
        self._left = micro_steps
        self._done = 0
        self._statistics = statistics
        self._rank = rank
        self.more: dict[str, object] = {}

    @property
    def is_full(self) -> bool:
        """Whether the last forward call was seen, or one could not be described."""
        return self._done >= self._left

    def add_call(self, weights: Iterable[tuple[str, Any]], given: Mapping[str, Any]) -> None:
        """A forward call begins; the training goes on whatever becomes of its record."""
        try:
            place = f"step{self._done}/rank{self._rank()}"
            found = {name: self._statistics(one) for name, one in weights}
            self.more[f"weights/{place}/weight.json"] = found
            content = {key: self._described(value, 0) for key, value in given.items()}
            self.more[f"dataset/{place}/dataset.json"] = content
            self.write()
        except Exception as error:
            pass_on_if_of_signal(error)
            _log.warning("The configuration is not collected any more: %s", error)
            self._left = 0
        self._done += 1

    def write(self) -> None:
        """Write what is known."""
        rank = self._rank()
        name = self._output.name if rank == 0 else f"{self._output.stem}.rank{rank}.zip"
        path = self._output.with_name(name)
        stream = io.BytesIO()
        variables = allowed_variables(os.environ)
        write_pack(stream, variables, installed_packages(), self._options, self.more.items())
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(temporary_name(path.name))
        temporary.write_bytes(stream.getvalue())
        temporary.replace(path)

    def _described(self, value: Any, depth: int) -> Any:
        """Tensors by their statistics in the lists and mappings they came in; others as text."""
        numbers = self._statistics(value)
        if numbers is not None:
            return numbers
        if depth < _DEEPEST and isinstance(value, Mapping):
            return {str(key): self._described(one, depth + 1) for key, one in value.items()}
        if depth < _DEEPEST and isinstance(value, list | tuple):
            return [self._described(one, depth + 1) for one in value]
        if value is None or isinstance(value, bool | int | float | str):
            return value
        return type(value).__name__
