"""``save`` and ``save_grad``: single tensors as NumPy files, without a debugger.

Files are ``{save_dir}/step{S}/rank{R}/{name}_{dtype}_{n}.npy``; gradients have ``_grad`` behind
their name. ``n`` counts the tensors of one name and type in a step.
"""

from __future__ import annotations

import logging
import re
from functools import partial
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
from mindspore.communication import GlobalComm, get_rank

from msprobe_builder.base.publish import replaced
from msprobe_collector.errors import CollectorError
from msprobe_collector.mindspore.arrays import host_array, widened
from msprobe_collector.report import speak_up

_log = logging.getLogger("msprobe_collector")
_BAD_NAME = re.compile(r"[/\\\0]|\.\.")


class _Counted:
    """The present step, how often each file name was used in it, and whose gradients wait."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.uses: dict[Path, int] = {}
        self.awaited: dict[tuple[int, str], Any] = {}  # handles by tensor and name


_counted = _Counted(0)


def save(save_dir: str | Path, name: str, data: Any) -> None:
    """Write a tensor, or each one in nested lists, tuples and dictionaries, at once.

    Inside them the place is part of the name: ``{name}.{key}``.
    """
    _refuse_graph_mode("save()")
    _write_all(Path(save_dir), _checked(name), data)


def save_grad(save_dir: str | Path, name: str, data: Any) -> Any:
    """Write the gradient of the tensor ``data`` when a pass computes it; returns ``data``."""
    _refuse_graph_mode("save_grad()")
    if not isinstance(data, mindspore.Tensor):
        raise CollectorError(f"save_grad() takes a tensor for {name!r}, not {type(data).__name__}.")
    stem = f"{_checked(name)}_grad"
    if data._grad_node is None:
        speak_up()
        _log.warning("No gradient comes to %s here; nothing of it will be saved.", name)
    else:
        # A tensor that is an input of many passes would keep the hooks of all of them.
        before = _counted.awaited.pop((id(data), stem), None)
        if before is not None:
            before.remove()
        handle = data.register_hook(partial(_write_gradient, Path(save_dir), stem))
        _counted.awaited[id(data), stem] = handle
    return data


def step() -> None:
    """The training step is over: the next values go to the next ``step{S}``."""
    global _counted
    for handle in _counted.awaited.values():
        handle.remove()
    _counted = _Counted(_counted.step + 1)


def _write_gradient(save_dir: Path, stem: str, gradient: Any) -> Any:
    try:
        _write(save_dir, stem, gradient)
    except OSError as error:  # a full disk must not end the training
        _log.warning("%s cannot be written: %s.", error.filename or stem, error)
    return gradient


def _write_all(save_dir: Path, name: str, data: Any) -> None:
    if isinstance(data, mindspore.Tensor):
        _write(save_dir, name, data)
    elif isinstance(data, dict):
        for key, part in data.items():
            _write_all(save_dir, f"{name}.{_checked(str(key))}", part)
    elif isinstance(data, (list, tuple)):
        for position, part in enumerate(data):
            _write_all(save_dir, f"{name}.{position}", part)
    else:
        raise CollectorError(
            f"save() takes tensors and nested lists, tuples and dictionaries of them; "
            f"{name} is of type {type(data).__name__}."
        )


def _write(save_dir: Path, name: str, tensor: Any) -> None:
    array = host_array(tensor)
    if array is None:
        raise CollectorError(f"The numbers of {name} cannot be read in this process.")
    rank = int(get_rank()) if GlobalComm.INITED else 0
    folder = save_dir / f"step{_counted.step}" / f"rank{rank}"
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    stem = folder / f"{name}_{array.dtype.name}"
    number = _counted.uses.get(stem, 0)
    _counted.uses[stem] = number + 1
    file = stem.with_name(f"{stem.name}_{number}.npy")
    with replaced(file) as stream:
        np.save(stream, widened(array), allow_pickle=False)
    file.chmod(0o640)


def _checked(name: Any) -> str:
    if not isinstance(name, str) or not name or _BAD_NAME.search(name) or len(name) > 200:
        raise CollectorError(
            f"{name!r} cannot be part of a file name; "
            "use at most 200 characters without slashes and without two dots in a row."
        )
    return name


def _refuse_graph_mode(function: str) -> None:
    if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
        raise CollectorError(
            f"{function} works in PyNative mode only; "
            "call mindspore.set_context(mode=mindspore.PYNATIVE_MODE) first."
        )
