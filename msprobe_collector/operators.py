"""Tell ``a + b`` from ``a.add(b)``.

Torch reports both as ``Tensor.add``; the established names keep them apart (``Tensor.__add__``).
The instruction at which the calling frame stands says which it was.
"""

from __future__ import annotations

import dis
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

_BINARY = {
    "+": "__add__",
    "-": "__sub__",
    "*": "__mul__",
    "/": "__truediv__",
    "@": "__matmul__",
    "//": "__floordiv__",
    "%": "__mod__",
    "**": "__pow__",
    "&": "__and__",
    "|": "__or__",
    "^": "__xor__",
    "<<": "__lshift__",
    ">>": "__rshift__",
}
_SYMBOLS = {
    **_BINARY,
    **{symbol + "=": "__i" + name[2:] for symbol, name in _BINARY.items()},
    "<": "__lt__",
    "<=": "__le__",
    ">": "__gt__",
    ">=": "__ge__",
    "==": "__eq__",
    "!=": "__ne__",
}
# Only these reach us the same way from both sides.
_REFLECTED = frozenset({"__add__", "__mul__"})
_UNARY = {"UNARY_NEGATIVE": "__neg__", "UNARY_INVERT": "__invert__"}
# Python 3.10 has one instruction per operator.
_PYTHON_310 = {
    "ADD": "__add__",
    "SUBTRACT": "__sub__",
    "MULTIPLY": "__mul__",
    "TRUE_DIVIDE": "__truediv__",
    "MATRIX_MULTIPLY": "__matmul__",
    "FLOOR_DIVIDE": "__floordiv__",
    "MODULO": "__mod__",
    "POWER": "__pow__",
    "AND": "__and__",
    "OR": "__or__",
    "XOR": "__xor__",
    "LSHIFT": "__lshift__",
    "RSHIFT": "__rshift__",
}


class Operator(NamedTuple):
    """An operator in a function: its dunder name and where its operands come from."""

    name: str
    left_is_constant: bool
    right_variable: str | None

    def called_as(self, frame: FrameType, first: Any) -> str:
        """The name, reflected (``__rmul__``) when the tensor ``first`` stood on the right."""
        if self.left_is_constant or (
            self.right_variable is not None and frame.f_locals.get(self.right_variable) is first
        ):
            return "__r" + self.name[2:]
        return self.name


# By identity, because hashing a code object reads all of it; the code is kept so that it lives.
_operators: dict[int, tuple[CodeType, dict[int, Operator]]] = {}


def operator_name(frame: FrameType, args: Sequence[Any]) -> str | None:
    """The dunder name of the operator at which ``frame`` stands, None when it is at none."""
    code = frame.f_code
    found = _operators.get(id(code))
    if found is None:
        found = _operators[id(code)] = (code, _operators_of(code))
    operator = found[1].get(frame.f_lasti)
    if operator is None:
        return None
    if operator.name in _REFLECTED and not isinstance(args[-1], torch.Tensor):
        return operator.called_as(frame, args[0])
    return operator.name


def _operators_of(code: CodeType) -> dict[int, Operator]:
    instructions = [
        instruction
        for instruction in dis.get_instructions(code)
        if instruction.opname not in ("EXTENDED_ARG", "CACHE")
    ]
    found = {}
    for index, instruction in enumerate(instructions):
        name = _dunder(instruction)
        if name is not None:
            left = _end_of_left_operand(instructions, index)
            found[instruction.offset] = Operator(
                name,
                left is not None and left.opname.startswith(("LOAD_CONST", "LOAD_SMALL_INT")),
                _variable(instructions[index - 1]),
            )
    return found


def _end_of_left_operand(
    instructions: Sequence[dis.Instruction], operator: int
) -> dis.Instruction | None:
    """The instruction before those that put the right operand on the stack."""
    height = 0
    for index in range(operator - 1, 0, -1):
        instruction = instructions[index]
        if instruction.is_jump_target:
            return None
        argument = instruction.arg if instruction.opcode >= dis.HAVE_ARGUMENT else None
        height += dis.stack_effect(instruction.opcode, argument)
        if height == 1:
            return instructions[index - 1]
    return None


def _variable(instruction: dis.Instruction) -> str | None:
    if not instruction.opname.startswith("LOAD_FAST"):
        return None
    names = instruction.argval  # two of them in the fused instructions of Python 3.13
    return str(names[-1] if isinstance(names, tuple) else names)


def _dunder(instruction: dis.Instruction) -> str | None:
    kind = instruction.opname
    if kind in _UNARY:
        return _UNARY[kind]
    if kind in ("BINARY_OP", "COMPARE_OP"):
        symbol = instruction.argrepr.removeprefix("bool(").removesuffix(")")
        return _SYMBOLS.get(symbol)
    word, _, operation = kind.partition("_")
    if word == "BINARY":
        return _PYTHON_310.get(operation)
    if word == "INPLACE" and operation in _PYTHON_310:
        return "__i" + _PYTHON_310[operation][2:]
    return None
