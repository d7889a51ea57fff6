"""What may be changed in a source file: one operator, condition, number, result or statement."""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# Of a number that is no whole one; one more or less would leave nothing of 1e-6.
ORDER_OF_MAGNITUDE = 10

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_UNTOUCHED = (ast.JoinedStr, ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)
# What is the same both ways, also of what is no number.
_SYMMETRIC = frozenset({"fmax", "fmin", "maximum", "minimum", "hypot", "max", "min"})
_JUMPS = (ast.Return, ast.Continue, ast.Break, ast.Raise)
_CONDITIONS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
MODULE = "<module>"


@dataclass(frozen=True)
class Change:
    """Put ``text`` in place of the characters ``start`` to ``end`` of a file (UTF-8 offsets).

    ``where`` is the outermost function or method around it, or :data:`MODULE`. ``regions`` are
    those that a test has to enter to notice it; none where that is not known.
    """

    path: str
    line: int
    where: str
    regions: tuple[str, ...]
    kind: str
    start: int
    end: int
    text: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line} {self.where} [{self.kind}] {self.start}"


def changes_of(root: Path, path: Path, code: Sequence[Path]) -> list[Change]:
    """All changes of a file, in its order; its numbers are read there or elsewhere in ``code``."""
    starts = [0]
    for line in path.read_bytes().split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    found: list[Change] = []
    name = path.relative_to(root).as_posix()
    tree, entered = _parsed(root, path)

    def change(
        node: ast.AST, where: str, within: Sequence[str], kind: str, new: ast.AST | str
    ) -> None:
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        text = new if isinstance(new, str) else ast.unparse(new)
        if isinstance(node, ast.expr) and not isinstance(node, ast.Constant | ast.Slice):
            text = f"({text})"
        found.append(Change(name, node.lineno, where, tuple(within), kind, start, end, text))

    for where, top in functions(tree):
        around = _readers(root, path, code, top) if isinstance(top, ast.Assign) else []
        for node, within in _inside(top, entered, around):
            for kind, new in _changed(node):
                change(node, where, within, kind, new)
    return sorted(found, key=lambda one: (one.start, one.end, one.kind, one.text))


@functools.cache
def _parsed(root: Path, path: Path) -> tuple[ast.Module, dict[int, str]]:
    """A file, and the names of the regions by the statements in them."""
    tree = ast.parse(path.read_bytes())
    name = path.relative_to(root).as_posix()
    return tree, {
        id(statement): region_name(name, where, place)
        for where, top in functions(tree)
        for place, region in enumerate(regions(top))
        for statement in region.statements
    }


@dataclass(frozen=True)
class Region:
    """Statements of which all are reached where the first is, but for what is raised."""

    body: list[ast.stmt]
    start: int
    end: int

    @property
    def statements(self) -> list[ast.stmt]:
        return self.body[self.start : self.end]


def regions(top: ast.stmt) -> list[Region]:
    """The regions of a function, its entrance first; none of anything else.

    One ends behind a statement in which the function, or a round of its loop, may end.
    """
    if not isinstance(top, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    found: list[Region] = []

    def within(body: list[ast.stmt], start: int) -> None:
        for place, one in enumerate(body):
            if _bodies(one) and any(isinstance(inner, _JUMPS) for inner in ast.walk(one)):
                found.append(Region(body, start, place + 1))
                start = place + 1
        found.append(Region(body, start, len(body)))
        for one in body:
            for inner in _bodies(one):
                within(inner, 0)

    within(top.body, int(ast.get_docstring(top) is not None))
    return found


def region_name(path: str, where: str, place: int) -> str:
    return f"{path}::{where}#{place}"


def _bodies(node: ast.AST) -> list[list[ast.stmt]]:
    """The lists of statements directly within a statement."""
    found = []
    for _, value in ast.iter_fields(node):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            found.append(value)
        elif isinstance(value, list):
            for one in value:
                if isinstance(one, ast.ExceptHandler | ast.match_case):
                    found.append(one.body)
    return found


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Functions and methods that are in no other, and numbers that the module names."""

    def within(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.stmt]]:
        for one in body:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{prefix}{one.name}", one
            elif isinstance(one, ast.ClassDef):
                yield from within(one.body, f"{prefix}{one.name}.")

    yield from within(tree.body, "")
    for one in tree.body:
        if isinstance(one, ast.Assign) and _is_number(one.value):
            yield MODULE, one


def applied(source: bytes, change: Change) -> bytes:
    return source[: change.start] + change.text.encode() + source[change.end :]


def _inside(
    top: ast.stmt, entered: dict[int, str], around: Sequence[str]
) -> Iterator[tuple[ast.AST, Sequence[str]]]:
    """The nodes that may be changed: no annotations, decorators, messages, or imports.

    With each its regions, by the statement of ``entered`` that it is in, or else ``around``.
    """
    waiting: list[tuple[ast.AST, Sequence[str]]] = [(top, around)]
    if isinstance(top, ast.FunctionDef | ast.AsyncFunctionDef):
        waiting = [(one, around) for one in top.body]
    while waiting:
        node, within = waiting.pop()
        within = [entered[id(node)]] if id(node) in entered else within
        if isinstance(node, ast.Raise | ast.Assert):
            yield node, within  # as a whole
            continue
        if isinstance(node, _UNTOUCHED) or _is_strict(node):
            continue
        yield node, within
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "args") and not isinstance(
                node, ast.Call
            ):
                continue
            parts = value if isinstance(value, list) else [value]
            waiting += [(one, within) for one in parts if isinstance(one, ast.AST)]


def _readers(root: Path, path: Path, code: Sequence[Path], assigned: ast.Assign) -> list[str]:
    """The regions that read a number that a module names."""
    names = {one.id for target in assigned.targets for one in _named(target)}
    files = [path] if all(one.startswith("_") for one in names) else code
    found: dict[str, None] = {}
    for tree, entered in (_parsed(root, one) for one in files):
        for _, function in functions(tree):
            for node, within in _inside(function, entered, ()):
                read = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)
                if read in names:
                    found.update(dict.fromkeys(within))
    return list(found)


def _named(target: ast.expr) -> Iterator[ast.Name]:
    return (one for one in ast.walk(target) if isinstance(one, ast.Name))


def _changed(node: ast.AST) -> Iterator[tuple[str, ast.AST | str]]:
    if isinstance(node, ast.Compare):
        for place, (operator, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            others = _COMPARISONS[type(operator)]
            is_index = isinstance(operator, ast.GtE | ast.Lt) and _is_nought(right)
            for other in others[1:] if is_index else others:
                new = copy.deepcopy(node)
                new.ops[place] = other()
                yield "comparison", new
    elif isinstance(node, ast.BoolOp):
        new_op: ast.boolop = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "boolean", ast.BoolOp(new_op, node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "boolean", node.operand
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        yield "arithmetic", ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)
    elif isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
        new_value = ast.AugAssign(node.target, _ARITHMETIC[type(node.op)](), node.value)
        yield "arithmetic", new_value
    elif isinstance(node, ast.Constant):
        yield from _constant(node)
    elif isinstance(node, ast.Call) and len(node.args) > 1:
        called = node.func
        name = getattr(called, "attr", "") or getattr(called, "id", "")
        is_same = name in _SYMMETRIC or any(isinstance(one, ast.Starred) for one in node.args[:2])
        if not is_same:
            new_call = copy.deepcopy(node)
            new_call.args[:2] = reversed(new_call.args[:2])
            yield "arguments", new_call
    elif isinstance(node, ast.Slice):
        if node.lower is not None:
            yield "slice", ast.Slice(None, node.upper, node.step)
        if node.upper is not None:
            yield "slice", ast.Slice(node.lower, None, node.step)
    elif isinstance(node, ast.stmt):
        yield from _statement(node)
    yield from _condition(node)


def _constant(node: ast.Constant) -> Iterator[tuple[str, str]]:
    if isinstance(node.value, bool):
        yield "constant", repr(not node.value)
    elif isinstance(node.value, int):
        yield "constant", repr(node.value + 1)
    elif isinstance(node.value, float):
        yield "constant", repr(node.value * ORDER_OF_MAGNITUDE or 1.0)


def _statement(node: ast.stmt) -> Iterator[tuple[str, ast.AST | str]]:
    if isinstance(node, ast.Return) and node.value is not None:
        # Of no and nothing nobody can tell one from the other; what is changed is the constant.
        if not (isinstance(node.value, ast.Constant) and node.value.value in (None, False, True)):
            yield "result", "return None"
    elif (
        isinstance(node, ast.Continue | ast.Break | ast.Raise | ast.AugAssign)
        or (isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant))
        or (isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name | ast.Tuple))
    ):
        yield "statement", "pass"


def _condition(node: ast.AST) -> Iterator[tuple[str, ast.AST | str]]:
    if isinstance(node, ast.IfExp) and isinstance(node.test, _CONDITIONS):
        yield "condition", ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        for place, generator in enumerate(node.generators):
            if generator.ifs:
                new = copy.deepcopy(node)
                new.generators[place].ifs = []
                yield "condition", new


def _is_strict(node: ast.AST) -> bool:
    """Whether it says that what is gone through together is equally long, which it is."""
    return isinstance(node, ast.keyword) and node.arg == "strict"


def _is_nought(node: ast.expr) -> bool:
    """Whether it is what an index is compared with that is there, or -1; none is a boundary."""
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 0


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)
