"""Single files: what torch saved, and safetensors. Nothing in them may run code."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe_builder.base.errors import BuildError
from msprobe_builder.metrics.tensor_file import require_torch
from msprobe_builder.metrics.torch_archive import is_compressed
from msprobe_checks.checkpoint.parameter import Parameter, of_tensor

if TYPE_CHECKING:
    import torch

TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt")
SAFETENSORS = ".safetensors"
_DEEPEST = 50  # mappings and lists inside each other
# Where training scripts put the model; what lies beside it is the optimizer's.
_MODEL_KEYS = ("model", "state_dict", "model_state_dict", "module")


class Inert:
    """Stands for every object of a class that torch does not load by itself; does nothing.

    Checkpoints hold the arguments of the training, whose classes lie in packages that need not
    be installed and are not to be trusted.
    """

    def __new__(cls, *_: object, **__: object) -> Inert:
        """Take any arguments and ignore them."""
        return object.__new__(cls)

    def __init__(self, *_: object, **__: object) -> None:
        self.state: dict[str, Any] = {}

    def __setstate__(self, state: object) -> None:
        self.state = dict(state) if isinstance(state, dict) else {}

    def __hash__(self) -> int:
        return id(self)


def load_torch(path: Path) -> object:
    """What torch saved in a file, with ``Inert`` for all that is neither tensor nor plain value.

    Raises BuildError when the file is none that torch wrote, or damaged.
    """
    require_torch(path)
    import torch
    from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

    try:
        strange: list[Any] = [(Inert, name) for name in get_unsafe_globals_in_checkpoint(path)]
        # An archive that somebody packed again would be mapped as if it were not compressed.
        is_mapped = not is_compressed(path)
        with safe_globals(strange):
            content: object = torch.load(
                path, map_location="cpu", weights_only=True, mmap=is_mapped
            )
    except FileNotFoundError as error:
        raise BuildError(f"{path} does not exist; check the path of the checkpoint.") from error
    except Exception as error:  # a damaged or hostile file may raise anything
        if isinstance(error, OSError) and error.strerror:
            raise BuildError(f"Cannot read {path}: {error.strerror}.") from error
        if isinstance(error, pickle.UnpicklingError):
            raise BuildError(
                f"{path} is damaged, or holds objects that cannot be read without running code; "
                "save the model's state_dict() alone, or as safetensors."
            ) from error
        raise BuildError(
            f"{path} cannot be read as a checkpoint: it is damaged, or no file that torch.save "
            "writes today; save it again with torch.save or as safetensors."
        ) from error
    return content


def read_torch(path: Path) -> dict[str, Parameter]:
    """The parameters in a file that ``torch.save`` wrote."""
    content = load_torch(path)
    if isinstance(content, Mapping):
        for key in _MODEL_KEYS:
            inner = content.get(key)
            if isinstance(inner, Mapping) and any(tensors(inner)):
                content = inner
                break
    return dict(tensors(content))


def tensors(content: object, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Parameter]]:
    """All dense tensors in nested mappings and lists, by their dotted names."""
    import torch

    if isinstance(content, torch.Tensor):
        content = content.detach()
        if content.layout is torch.strided and not content.is_quantized and not content.is_meta:
            yield prefix or "tensor", of_tensor(content)
    elif depth < _DEEPEST and isinstance(content, Mapping | list | tuple):
        items = content.items() if isinstance(content, Mapping) else enumerate(content)
        for key, value in items:
            yield from tensors(value, f"{prefix}.{key}" if prefix else str(key), depth + 1)


def read_safetensors(path: Path) -> dict[str, Parameter]:
    """The parameters in a safetensors file; BuildError when it is damaged."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise BuildError(f"{path} is read with safetensors; pip install safetensors.") from error
    try:
        with safe_open(path, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            return {
                name: Parameter(
                    tuple(one.get_shape()),
                    _TYPES.get(one.get_dtype(), one.get_dtype().lower()),
                    partial(_load_safetensor, path, name),
                )
                for name, one in slices.items()
            }
    except FileNotFoundError as error:
        raise BuildError(f"{path} does not exist; check the path of the checkpoint.") from error
    except (SafetensorError, OSError, ValueError, struct.error) as error:
        raise BuildError(f"{path} is damaged, or no safetensors file ({error}).") from error


def _load_safetensor(path: Path, name: str) -> torch.Tensor:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        tensor: torch.Tensor = file.get_tensor(name)
    return tensor


# safetensors' names of types by torch's.
_TYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}
