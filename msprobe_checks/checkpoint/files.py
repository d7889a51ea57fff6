"""Single files: what torch saved, and safetensors. Nothing in them may run code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.limits import DEEPEST_MAPPING, MOST_REPEATED, MOST_VALUES
from msprobe_builder.files.saved import load_saved
from msprobe_builder.files.tensors import opened_safetensors
from msprobe_builder.metrics.tensor_file import require_torch
from msprobe_checks.checkpoint.parameter import UNREAD, Parameter, of_tensor, stored_elements

if TYPE_CHECKING:
    import torch

TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt")
SAFETENSORS = ".safetensors"
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

    Raises FileError when the file is none that torch wrote, or damaged.
    """
    require_torch(path)
    return load_saved(path, Inert)


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


def tensors(content: object) -> Iterator[tuple[str, Parameter]]:
    """All tensors in nested mappings and lists, by their dotted names.

    What is not dense, or has no numbers, is UNREAD.

    BuildError where they are nested too deep or name each other without end.
    """
    if _count(content, "", 0, {}) > MOST_VALUES:
        raise BuildError(
            f"A checkpoint holds more than {MOST_VALUES:,} values, or mappings that hold "
            "themselves; save the model's state_dict() alone."
        )
    return _tensors(content, "", 0)


def _count(content: object, prefix: str, depth: int, known: dict[int, int]) -> int:
    """How many values there are, each as often as it is named; ``known`` ones are not looked at."""
    if not isinstance(content, Mapping | list | tuple):
        return 1
    if id(content) not in known:
        if depth >= DEEPEST_MAPPING:
            raise _too_deep(prefix)
        items = content.items() if isinstance(content, Mapping) else enumerate(content)
        inside = (_count(one, _joined(prefix, _text(key)), depth + 1, known) for key, one in items)
        known[id(content)] = 1 + sum(inside)
    return known[id(content)]


def _joined(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _too_deep(prefix: str) -> BuildError:
    return BuildError(
        f"A checkpoint holds more than {DEEPEST_MAPPING} mappings inside each other, at "
        f"{prefix[:80]}; save the model's state_dict() alone."
    )


def _tensors(content: object, prefix: str, depth: int) -> Iterator[tuple[str, Parameter]]:
    import torch

    if isinstance(content, torch.Tensor):
        content, name = content.detach(), prefix or "tensor"
        is_plain = content.layout is torch.strided and not content.is_nested
        if is_plain and not content.is_quantized and not content.is_meta:
            yield name, _stored(name, content)
        else:
            yield name, UNREAD
    elif isinstance(content, Mapping | list | tuple):
        if depth >= DEEPEST_MAPPING:
            raise _too_deep(prefix)
        items = content.items() if isinstance(content, Mapping) else enumerate(content)
        for key, value in items:
            yield from _tensors(value, _joined(prefix, _text(key)), depth + 1)


def _text(key: object) -> str:
    """A key as part of a name; BuildError for one that no checkpoint has."""
    if isinstance(key, str | int | float | bool | None):
        return str(key)
    if isinstance(key, tuple) and not any(isinstance(part, tuple | frozenset) for part in key):
        return str(key)
    raise BuildError(
        f"A checkpoint has a key of type {type(key).__name__}; save the model's state_dict() alone."
    )


def _stored(name: str, tensor: torch.Tensor) -> Parameter:
    """A tensor; BuildError when it has many more elements than there are in the file."""
    held = stored_elements(tensor)
    if tensor.numel() > max(held, MOST_REPEATED):
        raise BuildError(
            f"{name[:80]} has {tensor.numel():,} elements, of which its file holds {held:,}; save "
            "it again, made contiguous()."
        )
    return of_tensor(tensor)


def read_safetensors(path: Path) -> dict[str, Parameter]:
    """The parameters in a safetensors file; FileError when it is damaged."""
    with opened_safetensors(path) as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {
            name: Parameter(
                tuple(one.get_shape()),
                _TYPES.get(one.get_dtype(), one.get_dtype().lower()),
                partial(_load_safetensor, path, name),
                one.get_dtype() not in _NUMBERS,
            )
            for name, one in slices.items()
        }


def _load_safetensor(path: Path, name: str) -> torch.Tensor:
    with opened_safetensors(path) as file:
        return of_tensor(file.get_tensor(name)).load()


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

# Those of which torch can make numbers.
_NUMBERS = frozenset("C64 U16 U32 U64 F8_E8M0".split()) | _TYPES.keys()
