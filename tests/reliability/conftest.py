"""What the commands read, made once for all processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.commands import make_inputs
from tests.sharing import make_once, shared_folder


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for every command of commands.py; nobody writes into it."""
    folder = shared_folder(tmp_path_factory) / "inputs"
    return make_once(folder, make_inputs)
