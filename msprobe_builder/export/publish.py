"""A file that appears when it is complete, or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from msprobe_builder.errors import BuildError


@contextmanager
def published(output: Path) -> Iterator[BinaryIO]:
    """A stream whose content takes the place of ``output`` once everything is written."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=output.parent, suffix=".part")
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(output)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise BuildError(f"Cannot write {output}: {error.strerror}.") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
