"""What lies at a path that somebody calls a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.files.regular import read_part, read_text
from msprobe_checks.checkpoint.files import (
    SAFETENSORS,
    TORCH_SUFFIXES,
    read_safetensors,
    read_torch,
)
from msprobe_checks.checkpoint.megatron import rank_directories, read_megatron
from msprobe_checks.checkpoint.parameter import Checkpoint, Parameter
from msprobe_checks.checkpoint.sharded import INDEX, METADATA, read_distributed, read_indexed

_TRACKER = "latest_checkpointed_iteration.txt"
_LONGEST_TRACKER = 100  # bytes
_WHOLE = ("model.safetensors", "pytorch_model.bin", "adapter_model.safetensors")


def read_checkpoint(path: Path) -> Checkpoint:
    """The model at ``path``: a file, or a directory of one of the known layouts.

    Raises UsageError when nothing known lies there, BuildError when it cannot be read.
    """
    if path.is_file():
        return _of_file(path)
    if not path.is_dir():
        why = "is no regular file" if path.exists() else "does not exist"
        raise UsageError(f"{path} {why}; give the file or directory of a checkpoint.")
    found = _of_directory(path)
    if not found.parameters:
        raise BuildError(f"{path} holds no parameters.")
    return found


def _of_file(path: Path) -> Checkpoint:
    if path.name == _TRACKER or path.name == METADATA or path.name in INDEX:
        return read_checkpoint(path.parent)
    if path.suffix == SAFETENSORS:
        return Checkpoint("safetensors", read_safetensors(path), groups=_groups(path.parent))
    if path.suffix not in TORCH_SUFFIXES:
        suffixes = ", ".join((SAFETENSORS, *TORCH_SUFFIXES))
        raise UsageError(f"{path} is no checkpoint: its name ends with none of {suffixes}.")
    found = read_torch(path)
    if not found:
        raise BuildError(f"{path} holds no tensors.")
    return Checkpoint("torch.save", found, groups=_groups(path.parent))


def _of_directory(path: Path) -> Checkpoint:
    tracker = path / _TRACKER
    if tracker.is_file():
        return _of_directory(_latest(tracker))
    if (path / METADATA).is_file():
        found = _without_common_stem(read_distributed(path))
        return Checkpoint("torch.distributed.checkpoint", found)
    if rank_directories(path):
        return read_megatron(path)
    for index in INDEX:
        if (path / index).is_file():
            found = read_indexed(path / index)
            return Checkpoint("Hugging Face, sharded", found, groups=_groups(path))
    files = [path / name for name in _WHOLE if (path / name).is_file()][:1]
    files = files or sorted(path.glob(f"*{SAFETENSORS}"))
    if not files:
        raise UsageError(
            f"{path} holds no known checkpoint: none of {_TRACKER}, mp_rank_* directories, "
            f"{METADATA}, {', '.join((*INDEX, *_WHOLE))}."
        )
    parameters: dict[str, Parameter] = {}
    for file in files:
        parameters |= read_safetensors(file) if file.suffix == SAFETENSORS else read_torch(file)
    return Checkpoint("Hugging Face", parameters, groups=_groups(path))


def _latest(tracker: Path) -> Path:
    text = read_part(tracker, 0, _LONGEST_TRACKER).decode("utf-8", "replace").strip()
    is_number = text.isascii() and text.isdigit() and len(text) < 10
    if not is_number and text != "release":
        raise BuildError(f"{tracker} names no iteration: it must hold a number or 'release'.")
    directory = tracker.parent / (f"iter_{int(text):07d}" if is_number else text)
    if not directory.is_dir():
        raise BuildError(f"{tracker} names {directory.name}, which is missing; copy it too.")
    return directory


def _without_common_stem(parameters: dict[str, Parameter]) -> dict[str, Parameter]:
    """The model's part of a checkpoint that also holds the optimizer, without its key."""
    for key in ("model.", "app.model.", "state_dict."):
        own = {name: one for name, one in parameters.items() if name.startswith(key)}
        others = [name for name in parameters if name not in own]
        if own and all(_is_optimizer(name) for name in others):
            return {name.removeprefix(key): one for name, one in own.items()}
    return {name: one for name, one in parameters.items() if not _is_optimizer(name)} or parameters


def _is_optimizer(name: str) -> bool:
    return any(part.startswith("optim") for part in name.split("."))


def _groups(directory: Path) -> int | None:
    """Groups of query heads by Hugging Face's configuration beside the weights."""
    try:
        content = json.loads(read_text(directory / "config.json"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    value = content.get("num_key_value_heads", content.get("num_attention_heads"))
    return value if type(value) is int and 0 < value < 1 << 20 else None
