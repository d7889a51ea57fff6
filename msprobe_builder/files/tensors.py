"""Files of safetensors: a description and the elements, no code; their library checks both."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msprobe_builder.base.errors import BuildError
from msprobe_builder.files.problems import FileError
from msprobe_builder.files.regular import open_regular


@contextmanager
def opened_safetensors(path: Path) -> Iterator[Any]:
    """A file, open to give slices and tensors of torch; FileError, also while it is read.

    BuildError without the library.
    """
    try:
        from safetensors import safe_open
    except ImportError as error:
        raise BuildError(f"{path} is read with safetensors; pip install safetensors.") from error
    try:
        os.close(open_regular(path))  # a pipe would wait for somebody
        with safe_open(path, framework="pt") as file:
            yield file
    except FileNotFoundError as error:
        raise FileError("missing", f"{path} does not exist.", "Check the path.") from error
    except Exception as error:  # a damaged file, or a type that this torch does not know
        message = f"{path} is damaged, or no safetensors file ({error})."
        raise FileError("damaged", message, "Copy it again.") from error
