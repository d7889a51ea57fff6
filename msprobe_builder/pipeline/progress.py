"""Telling how far a build is: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import io
import sys
import time
from contextlib import suppress
from typing import TextIO

_WIDTH = 28


class Progress:
    """Counts finished stages out of ``total``; writes to ``stream``, nothing when ``quiet``."""

    def __init__(self, total: int, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        # There is no stderr at all when the program was started with it closed.
        self._stream = stream or sys.stderr or io.StringIO()
        self._total = max(total, 1)
        self._done = 0
        self._quiet = quiet
        self._bar = self._stream.isatty()
        self._began = time.monotonic()

    def begin(self, stage: str) -> None:
        """Announce what runs now."""
        if self._quiet:
            return
        with suppress(OSError, ValueError):  # who reads it may have gone; the build goes on
            self._tell(stage)

    def _tell(self, stage: str) -> None:
        if self._bar:
            filled = _WIDTH * self._done // self._total
            bar = "█" * filled + "░" * (_WIDTH - filled)
            share = 100 * self._done // self._total
            self._stream.write(f"\r\x1b[2K{bar} {share:3d} %  {stage}")
        else:
            self._stream.write(f"[{time.monotonic() - self._began:7.1f} s] {stage}\n")
        self._stream.flush()

    def expect(self, stages: int) -> None:
        """More is to be done than was known."""
        self._total += stages

    def finish_stage(self) -> None:
        """Count one stage as done."""
        self._done = min(self._done + 1, self._total)

    def close(self) -> None:
        """Clear the bar."""
        if self._bar and not self._quiet:
            with suppress(OSError, ValueError):
                self._stream.write("\r\x1b[2K")
                self._stream.flush()
