"""``SingleSave``: tensors that the user names, saved as arrays for ``msprobe-build table``."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.publish import written
from msprobe_collector.errors import CollectorError
from msprobe_collector.signals import pass_on_if_of_signal

_log = logging.getLogger("msprobe_collector")
_FRAMEWORKS = ("pytorch", "mindspore")


class SingleSave:
    """Saves below ``dump_path/data/{tag}/step{S}/rank{R}/micro_step{M}``; see docs/tables.md.

    One of a process: the first path is that of all. The training goes on whatever becomes of it.
    """

    _instance: ClassVar[SingleSave | None] = None
    _path: Path
    _step: int
    _counts: Counter[str]
    _framework: str

    def __new__(cls, dump_path: str | Path, fmk: str = "pytorch") -> SingleSave:
        if fmk not in _FRAMEWORKS:
            raise CollectorError(f"fmk is {fmk!r}; choose one of {', '.join(_FRAMEWORKS)}.")
        if cls._instance is None:
            made = super().__new__(cls)
            made._path, made._step, made._counts = Path(dump_path), 0, Counter()
            made._framework = fmk
            cls._instance = made
        return cls._instance

    @classmethod
    def save(cls, data: Mapping[str, Any]) -> None:
        """Save each tensor, or list or dictionary of tensors, as the next micro-step of its tag."""
        saver = cls._found()
        for tag, value in _checked(data):
            cls.save_ex({tag: value}, saver._counts[tag])
            saver._counts[tag] += 1

    @classmethod
    def save_ex(cls, data: Mapping[str, Any], micro_batch: int | None = None) -> None:
        """The same as a micro-step of the caller's number, or beside all of them."""
        saver = cls._found()
        place = f"step{saver._step}/rank{_rank(saver._framework)}"
        if micro_batch is not None:
            place += f"/micro_step{micro_batch}"
        for tag, value in _checked(data):
            try:
                _write(saver._path / "data" / tag / place, tag, value)
            except Exception as error:  # the training goes on
                pass_on_if_of_signal(error)
                _log.warning("%s was not saved: %s", tag, error)

    @classmethod
    def step(cls) -> None:
        """The next step begins, and micro-steps are counted from 0."""
        saver = cls._found()
        saver._step += 1
        saver._counts.clear()

    @classmethod
    def save_config(cls, data: object) -> None:
        """Save settings beside the tensors, in configurations.json."""
        text = json.dumps(data, indent=4, default=str)
        with written(cls._found()._path / "configurations.json") as stream:
            stream.write(text.encode())

    @classmethod
    def _found(cls) -> SingleSave:
        if cls._instance is None:
            raise CollectorError("SingleSave has no path yet; call SingleSave(dump_path) first.")
        return cls._instance


def _rank(framework: str) -> int:
    """Of this process; only the framework that is there is asked."""
    if framework == "mindspore":
        from mindspore.communication import GlobalComm, get_rank

        return int(get_rank()) if GlobalComm.INITED else 0
    from msprobe_collector.process import process_rank

    return process_rank() or 0


def _checked(data: object) -> Iterator[tuple[str, Any]]:
    if not isinstance(data, Mapping):
        _log.warning("SingleSave takes a dictionary of tensors by their tags, no %s.", type(data))
        return
    for tag, value in data.items():
        if isinstance(tag, str) and tag and "/" not in tag and tag not in (".", ".."):
            yield tag, value
        else:
            _log.warning("SingleSave leaves out %r: a tag is the name of a folder.", tag)


def _write(folder: Path, tag: str, value: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(value, Mapping):
        content: Any = {str(key): _saved(folder, f"{tag}.{key}", one) for key, one in value.items()}
    elif isinstance(value, (list, tuple)):
        content = [_saved(folder, f"{tag}.{place}", one) for place, one in enumerate(value)]
    else:
        content = _saved(folder, tag, value)
    with written(folder / f"{tag}.json") as stream:
        stream.write(json.dumps({"data": content}, indent=4).encode())


def _saved(folder: Path, name: str, tensor: Any) -> dict[str, Any]:
    """Write one array; returns its statistics."""
    array = _array(tensor)
    with written(folder / f"{name}.npy") as stream:
        np.save(stream, array)
    if not array.size:
        return {**dict.fromkeys(("max", "min", "mean", "norm")), "shape": list(array.shape)}
    wide = array.astype(np.float64)
    numbers = wide.max(), wide.min(), wide.mean(), np.linalg.norm(wide.reshape(-1))
    found = dict(zip(("max", "min", "mean", "norm"), map(float, numbers), strict=True))
    return {**found, "shape": list(array.shape)}


def _array(tensor: Any) -> NDArray[Any]:
    """A tensor of torch or MindSpore as numpy has it; types that numpy lacks become float32."""
    if hasattr(tensor, "detach") and hasattr(tensor, "cpu"):
        local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        held = local.detach().cpu()
        is_known = not held.is_floating_point() or str(held.dtype) in _NUMPY_TYPES
        return np.asarray((held if is_known else held.float()).numpy())
    if hasattr(tensor, "asnumpy"):
        array = np.asarray(tensor.asnumpy())
        return array.astype(np.float32) if array.dtype.kind == "V" else array
    raise TypeError(f"a {type(tensor).__name__} is no tensor")


_NUMPY_TYPES = ("torch.float16", "torch.float32", "torch.float64")
