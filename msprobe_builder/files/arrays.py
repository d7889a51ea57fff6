"""Arrays of numpy in files from outside, mapped: no pickles, and nothing but regular files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.files.regular import open_regular


def mapped_array(path: Path) -> NDArray[Any]:
    """The content of a ``.npy`` file; OSError, or ValueError when it is none or is cut off."""
    os.close(open_regular(path))
    content: NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
    return content.view(np.ndarray)  # whose pieces are made faster


def mapped_part(
    path: Path, dtype: np.dtype[Any], offset: int, shape: tuple[int, ...]
) -> NDArray[Any]:
    """Numbers in a file from ``offset`` on; OSError, or ValueError when it is too short."""
    os.close(open_regular(path))
    return np.memmap(path, dtype, "r", offset, shape or (1,)).reshape(shape)
