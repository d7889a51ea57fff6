"""The table of operators: one reader for every name that a library gives to an operator.

``operators.txt`` is written by hand, ``torch.tsv`` made of torch's registry; both are read when
the first name is asked for, within milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path

from msprobe_builder.operators.operator import Argument, Kind, Operator, Term
from msprobe_builder.operators.prefixes import COLLECTIVES, COLUMNS, MODULES

_LIBRARIES = ("torch", "mindspore", "npu", "library", "distributed")
_REGION = "ParallelRegion"  # Megatron's functions around collectives
_TYPES = {"f": "float", "b": "bool"}  # of places that count arguments of one type


def operator_of(stem: str) -> Operator:
    """The operator of a call or a module: ``Tensor.__add__`` and ``Primitive.AddExt`` are ``add``.

    Of a name that nobody knows the result has the kind ``OTHER`` and the bare name in lower case.
    """
    prefix, dot, rest = stem.partition(".")
    return _operator_of(prefix, rest.rpartition(".")[2] if dot else stem)


@lru_cache(maxsize=1 << 14)  # of the classes of modules, of which a model has many
def _operator_of(prefix: str, name: str) -> Operator:
    if prefix in MODULES:
        return _of_class(name)
    names = _names()
    if prefix in COLLECTIVES:
        row = names["distributed"].get(_key(name))
        return named(row) if row else Operator(f"collective {_key(name)}", Kind.COLLECTIVE)
    columns = COLUMNS.get(prefix, ("torch",))
    for column in (*columns, *(one for one in _LIBRARIES[:-1] if one not in columns)):
        known = names[column]
        keys = [name, _key(name), *_shortened(name, column)]
        row = next((known[key] for key in keys if key in known), None)
        if row is not None:
            return named(row)
    if name.endswith(_REGION):
        return Operator(f"collective {_key(name)}", Kind.COLLECTIVE)
    return Operator(_key(name), Kind.OTHER)


@cache
def named(name: str) -> Operator:
    """The row of this name; KeyError where the table has none."""
    generated = _generated().get(name)
    known = None if generated is None else _generated_row(name, *generated)
    if name in _written():
        return _written_row(name, *_written()[name], known)
    if known is None:
        raise KeyError(name)
    return known


@cache
def row_of(name: str) -> Operator:
    """The row of this name, or one that says nothing."""
    return named(name) if is_row(name) else Operator(name, Kind.OTHER)


def is_row(name: str) -> bool:
    """Whether the table has a row of this name, whatever its kind."""
    return name in _written() or name in _generated()


def is_in_place(stem: str) -> bool:
    """Whether a call writes to the tensor that it is called on: ``add_``, ``__iadd__``."""
    name = stem.rpartition(".")[2]
    if name.endswith("__"):
        return name == "__setitem__" or (name.startswith("__i") and name != "__invert__")
    return name.endswith("_") and bool(name.strip("_"))


def overwrites(stem: str) -> bool:
    """Whether a call overwrites the tensor that it is called on, and reads nothing of it."""
    operator = operator_of(stem)
    is_drawn = operator.kind is Kind.DRAW and operator.always_draws
    return is_in_place(stem) and (is_drawn or operator.kind is Kind.FILL)


def paired_name(stem: str) -> str:
    """What two libraries have for each other counts as one: ``relu6`` and ``relu``."""
    operator = operator_of(stem)
    return operator.pairs or operator.name


def rows() -> list[Operator]:
    """All rows."""
    return [named(name) for name in (_generated() | _written())]


def spellings(column: str) -> Mapping[str, tuple[str, ...]]:
    """By row the names that one column of ``operators.txt`` gives, as they are written there."""
    return {
        name: tuple(cells[column].split(","))
        for name, (_, cells) in _written().items()
        if column in cells
    }


@cache
def names_with(trait: str) -> frozenset[str]:
    """What rows with a trait are called, and what torch calls them, as it is written there."""
    own = [
        name for name, (_, cells) in _written().items() if trait in cells.get("is", "").split(",")
    ]
    others = spellings("torch")
    return frozenset(own).union(*(others.get(name, ()) for name in own))


@cache
def _names() -> Mapping[str, Mapping[str, str]]:
    """By column the row of each name, as it is written and in its plain form."""
    found: dict[str, dict[str, str]] = {column: {} for column in (*_LIBRARIES, "class")}
    for column, names in found.items():
        for row, others in spellings(column).items():
            for other in others:
                names.setdefault(other, row)
                names.setdefault(_plain(other, column), row)
    for row in _generated():
        found["torch"].setdefault(row, row)
    for row, (kind, _) in _written().items():
        is_collective = kind == Kind.COLLECTIVE.value
        found["distributed" if is_collective else "torch"].setdefault(row, row)
        for column in ("mindspore", "class"):
            found[column].setdefault(_plain(row, column), row)
    return found


def _of_class(name: str) -> Operator:
    """Of a module that is named after its operator: ``BatchNorm2d``, ``LlamaRMSNorm``."""
    plain = _plain(name, "class")
    known = _names()["class"].get(plain)
    if known is not None:
        return named(known)
    if plain.rstrip("123d").endswith("norm"):  # of whatever model
        return named("rms_norm" if "rms" in plain else "layer_norm")
    return Operator(name, Kind.OTHER)


def _key(name: str) -> str:
    return name.strip("_").lower() or name


def _plain(name: str, column: str) -> str:
    """The form under which names are looked up that are written in more than one way."""
    if name.startswith("__") and name.endswith("__"):
        return name  # ``__rand__`` is no ``rand``
    return _key(name).replace("_", "") if column in ("mindspore", "class") else _key(name)


def _shortened(name: str, column: str) -> list[str]:
    if column == "mindspore":
        plain = _plain(name, column)
        return [plain, plain.removesuffix("ext")]
    return [_key(name).removeprefix("npu_")] if column == "torch" else []


def _lines(file: str) -> list[str]:
    # Not by importlib.resources, which loads zipfile: the first call must stay cheap.
    text = Path(__file__).with_name(file).read_text("utf-8")
    return [line for line in text.splitlines() if line and line[0] != "#"]


@cache
def _written() -> dict[str, tuple[str, dict[str, str]]]:
    """Kind and cells of each row that was written by hand."""
    found = {}
    for line in _lines("operators.txt"):
        name, kind, *cells = line.split()
        found[name] = kind, {key: text for key, _, text in (one.partition("=") for one in cells)}
    return found


@cache
def _generated() -> dict[str, tuple[str, str]]:
    """Tags and arguments of each name of torch."""
    return {
        name: (tags, arguments)
        for name, tags, arguments in (line.split("\t") for line in _lines("torch.tsv"))
    }


def _written_row(name: str, kind: str, cells: dict[str, str], known: Operator | None) -> Operator:
    words = {key: tuple(text.split(",")) for key, text in cells.items()}
    arguments = {} if known is None else dict(known.arguments)
    arguments.update(map(_argument, words.get("arguments", ())))
    acts = words.get("acts", ())
    arguments.update(_argument(one) for one in acts if "@" in one)
    draws = None if known is None else known.draws
    return Operator(
        name,
        Kind(kind),
        condition=frozenset(words.get("condition", ())),
        keeps=frozenset(words.get("keeps", ())),
        breaks=frozenset(words.get("breaks", ())),
        draws=_terms(cells["draws"]) if "draws" in cells else draws,
        traits=frozenset(words.get("is", ())),
        shards=frozenset(words.get("shards", ())),
        parts=words.get("of", ()),
        acts=tuple(one.partition("@")[0] for one in acts),
        idle=frozenset(words.get("idle", ())),
        arguments=arguments,
        pairs=cells.get("pairs", ""),
    )


# The kind of what torch alone tells of: the first of its tags that says one.
_KINDS = {"pointwise": Kind.POINTWISE, "reduction": Kind.REDUCTION, "view": Kind.SHAPE}


def _generated_row(name: str, tags: str, arguments: str) -> Operator:
    words = tags.split()
    draws = next((word.partition("=")[2] for word in words if word.startswith("draws")), None)
    kind = next((_KINDS[word] for word in words if word in _KINDS), Kind.OTHER)
    known = () if arguments == "-" else map(_argument, arguments.split(" "))
    return Operator(
        name,
        kind if draws is None else Kind.DRAW,
        draws=None if draws is None else _terms(draws),
        arguments=dict(known),
    )


def _argument(text: str) -> tuple[str, Argument]:
    """``alpha@-1=1``, ``dropout@f0``: the first float among the plain arguments."""
    name, _, rest = text.partition("@")
    place, has_default, default = rest.partition("=")
    kind = _TYPES.get(place[:1])
    number = int(place[1:] if kind else place)
    return name, Argument(number, default if has_default else None, kind)


def _terms(text: str) -> tuple[Term, ...]:
    if text == "always":
        return ()
    found = []
    for one in text.split("&"):
        relation = next((sign for sign in "><=" if sign in one), "")
        name, _, bound = one.partition(relation) if relation else (one, "", "")
        found.append(Term(name, relation, bound))
    return tuple(found)


def draws(
    operator: Operator, plain: Mapping[str, str], floats: Sequence[str], booleans: Sequence[str]
) -> bool:
    """Whether a call draws random numbers.

    ``plain`` are the texts of its arguments by name or place, ``floats`` and ``booleans`` those
    among them in their order. A condition on what nobody gives, and what has no default, holds.
    """
    if operator.draws is None:
        return False
    lists = {"float": floats, "bool": booleans}

    def value(name: str) -> str | None:
        own = operator.arguments.get(name)
        if name in plain or own is None:
            return plain.get(name)
        if own.of_type is not None:
            several = lists[own.of_type]
            return several[own.place] if own.place < len(several) else own.default
        return plain.get(str(own.place), own.default)

    return all(_holds(term, value(term.name)) for term in operator.draws)


def _holds(term: Term, value: str | None) -> bool:
    if value is None:
        return True
    if term.relation == "=":
        return value == term.bound
    if not term.relation:
        return value not in ("False", "0", "None")
    try:
        number = float(value)
    except ValueError:
        return True  # a tensor, or what nobody can read
    return number > float(term.bound) if term.relation == ">" else number < float(term.bound)
