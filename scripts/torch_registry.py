"""Write what torch's own registry says of its operators, for the table of operators.

    python scripts/torch_registry.py        msprobe_builder/operators/torch.tsv

One row for each name of ``torch``, ``torch.nn.functional`` and ATen: what the tags of its ATen
operator say, and the arguments that have a default, with their place and that default.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

TABLE = Path(__file__).resolve().parent.parent / "msprobe_builder" / "operators" / "torch.tsv"
# Kernels of one device and steps of the compiler: programs do not call them.
_INTERNAL = ("foreach_", "fbgemm", "cudnn_", "mkldnn_", "miopen_", "sparse_", "nested_", "mps_")
_CHANCES = ("dropout_p", "dropout", "p")  # with what probability an operator drops elements
_SWITCHES = ("training", "train")
_BY_KEYWORD = -1
_UNTOLD = ("dtype", "layout", "device", "pin_memory", "generator")


def rows() -> list[str]:
    """The rows of the table, without its heading."""
    overloads = _overloads()
    names = {name.strip("_") for name in overloads} | set(_functions())
    found = []
    for name in sorted(names):
        schemas = [one for own in (name, f"{name}_", f"_{name}") for one in overloads.get(own, ())]
        tags = _tags(schemas)
        public = name in overloads or f"{name}_" in overloads or name in _functions()
        is_internal = not public or name.startswith(_INTERNAL) or name.endswith("_copy")
        if is_internal and "random" not in tags:
            continue
        if name.endswith(("_backward", "_backward_data")) and "random" not in tags:
            continue
        arguments = _arguments(name, schemas)
        if "random" in tags:
            tags[tags.index("random")] = f"draws={_condition(arguments)}"
        if tags or arguments:
            shown = [f"{key}@{place}={value}" for key, (place, value) in arguments.items()]
            found.append("\t".join((name, " ".join(tags) or "-", " ".join(shown) or "-")))
    return found


def _overloads() -> dict[str, list[Any]]:
    """All overloads of ATen that are no ``out`` form, by base name."""
    found: dict[str, list[Any]] = {}
    for full in torch._C._dispatch_get_all_op_names():
        space, _, rest = full.partition("::")
        base, _, overload = rest.partition(".")
        if space != "aten" or "out" in overload.split("_"):
            continue
        packet = getattr(torch.ops.aten, base, None)
        one = getattr(packet, overload or "default", None)
        if one is not None:
            found.setdefault(base, []).append(one)
    for base in found:
        found[base].sort(key=lambda one: str(one._overloadname))
    return found


def _functions() -> dict[str, inspect.Signature]:
    """Functions of torch.nn.functional that are written in Python."""
    found = {}
    for name, function in vars(F).items():
        own = inspect.isfunction(function) and function.__module__ == F.__name__
        is_boolean = name.startswith("boolean_dispatch") or name.endswith("_with_indices")
        if own and not name.startswith("_") and not name.endswith("_") and not is_boolean:
            found[name] = inspect.signature(function)
    return found


def _tags(schemas: list[Any]) -> list[str]:
    known = {tag for one in schemas for tag in one.tags}
    found = []
    if torch.Tag.nondeterministic_seeded in known:
        found.append("random")
    if torch.Tag.pointwise in known:
        found.append("pointwise")
    if getattr(torch.Tag, "reduction", None) in known:
        found.append("reduction")
    results = [one._schema.returns for one in schemas]
    if results and all(
        own and all(one.alias_info is not None and not one.alias_info.is_write for one in own)
        for own in results
    ):
        found.append("view")
    return found


def _arguments(name: str, schemas: list[Any]) -> dict[str, tuple[int, str]]:
    """Place and default of each argument that has one; those by keyword alone have no place."""
    signature = _functions().get(name)
    if signature is not None:
        return {
            one.name: (
                _BY_KEYWORD if one.kind is inspect.Parameter.KEYWORD_ONLY else place,
                str(one.default).replace(" ", ""),
            )
            for place, one in enumerate(signature.parameters.values())
            if one.default is not inspect.Parameter.empty and one.name[0] != "_"
        }
    plain = [one for one in schemas if one._overloadname == "default"]
    told = _of_schemas(plain)
    return _of_schemas([one for one in schemas if one not in plain]) | told


def _of_schemas(schemas: list[Any]) -> dict[str, tuple[int, str]]:
    """Of several forms of one operator; what one takes by keyword another takes by place of old."""
    found: dict[str, tuple[int, str]] = {}
    for one in schemas:
        for place, argument in enumerate(one._schema.arguments):
            if argument.name in _UNTOLD or not argument.has_default_value():
                continue
            default = str(argument.default_value).replace(" ", "")
            if argument.kwarg_only:
                found[argument.name] = (_BY_KEYWORD, default)
            else:
                found.setdefault(argument.name, (place, default))
    return found


def _condition(arguments: dict[str, tuple[int, str]]) -> str:
    """When an operator draws that its tags say may do so."""
    switch = next((name for name in _SWITCHES if name in arguments), None)
    chance = next((name for name in _CHANCES if name in arguments), None)
    parts = [] if chance is None else [f"{chance}>0"]
    return "&".join(parts + ([switch] if switch else [])) or "always"


def text() -> str:
    """The whole file."""
    heading = (
        f"# Made of torch {torch.__version__.partition('+')[0]} by scripts/torch_registry.py.",
        "# name\ttags\targuments: name@place=default, place -1 by keyword alone",
    )
    return "\n".join((*heading, *rows())) + "\n"


if __name__ == "__main__":
    TABLE.write_text(text(), encoding="utf-8")
