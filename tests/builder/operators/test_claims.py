"""Each row of the table of operators that torch can run is run, and what it claims is checked."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pytest
import torch

from msprobe_builder.operators.operator import Kind, Operator
from msprobe_builder.operators.table import draws, named, rows, spellings
from tests.builder.operators.samples import arguments_of, function_of

Tensors = list[torch.Tensor]

# They hand out memory, ask or take what is no tensor: nothing is claimed of numbers.
_SILENT = {Kind.EMPTY, Kind.COLLECTIVE, Kind.QUERY, Kind.UPDATE, Kind.OTHER}
_LEAST = 330  # rows that torch 2.13 runs; more is better


@cache
def runnable() -> dict[str, Callable[..., Any]]:
    """The function of each row that torch has, and that takes what ARGUMENTS gives it."""
    found = {}
    for row in rows():
        if row.kind in _SILENT or row.name not in _written():
            continue
        names = (row.name, *spellings("torch").get(row.name, ()))
        several = (function_of(name) or function_of(f"{name}_") for name in names)
        function = next((one for one in several if one is not None), None)
        if function is not None and _fits(row, function):
            found[row.name] = function
    return found


def _written() -> frozenset[str]:
    from msprobe_builder.operators import table

    return frozenset(table._written())


def _fits(row: Operator, function: Callable[..., Any]) -> bool:
    try:
        run(function, arguments_of(row))
    except Exception:  # another torch takes other arguments
        return False
    return True


def run(
    function: Callable[..., Any], arguments: Iterable[Any], seed: int = 0, **keywords: Any
) -> Tensors:
    """The tensors that a call puts out; its arguments are left as they are."""
    own = [one.clone() if isinstance(one, torch.Tensor) else one for one in arguments]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(seed)  # that of each device takes milliseconds
        result = function(*own, **keywords)
    return _flat(result)


def _flat(result: Any) -> Tensors:
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, (tuple, list)):
        return [tensor for one in result for tensor in _flat(one)]
    return [torch.tensor(result)] if isinstance(result, (bool, int, float)) else []


def alike(left: Tensors, right: Tensors) -> bool:
    """Whether two results are equal but for the last digits."""
    return len(left) == len(right) and all(
        one.shape == other.shape
        and torch.allclose(one.to(torch.complex128), other.to(torch.complex128), equal_nan=True)
        for one, other in zip(left, right, strict=True)
    )


def of(claims: Callable[[Operator], bool]) -> list[str]:
    """The rows that claim something, and can be run."""
    return [name for name in runnable() if claims(named(name))]


def called(name: str) -> tuple[Operator, Callable[..., Any], list[Any]]:
    """A row, its function, and what to call it with."""
    row = named(name)
    return row, runnable()[name], arguments_of(row)


def test_most_rows_of_torch_are_run() -> None:
    assert len(runnable()) >= _LEAST


# Without their condition; where that is an argument that is given anyway, in its place.
_OFF: dict[str, tuple[dict[int, Any], dict[str, Any]]] = {
    "dropout": ({}, {"training": False}),
    "dropout1d": ({}, {"p": 0.0}),
    "dropout2d": ({}, {"training": False}),
    "dropout3d": ({}, {"p": 0.0}),
    "native_dropout": ({2: False}, {}),
    "alpha_dropout": ({2: False}, {}),
    "feature_dropout": ({1: 0.0}, {}),
    "feature_alpha_dropout": ({2: False}, {}),
    "rrelu": ({3: False}, {}),
    "lstm": ({5: 0.0}, {}),
    "gru": ({6: False}, {}),
    "rnn_tanh": ({5: 0.0}, {}),
    "rnn_relu": ({6: False}, {}),
    "multi_head_attention_forward": ({}, {"training": False}),
    "scaled_dot_product_attention": ({}, {}),
    "fractional_max_pool2d": ({}, {"_random_samples": torch.full((2, 1, 2), 0.3)}),
    "fractional_max_pool3d": ({}, {"_random_samples": torch.full((2, 1, 3), 0.3)}),
}
_ON: dict[str, dict[str, Any]] = {"scaled_dot_product_attention": {"dropout_p": 0.5}}


def _draws(row: Operator, arguments: list[Any], keywords: dict[str, Any]) -> bool:
    """What the table says of a call, from the texts that a dump has of its arguments."""
    plain = {
        str(key): "tensor" if isinstance(one, torch.Tensor) else str(one)
        for key, one in (*enumerate(arguments), *keywords.items())
    }
    floats = [str(one) for one in arguments if isinstance(one, float)]
    return draws(row, plain, floats, [str(one) for one in arguments if isinstance(one, bool)])


def _differ(function: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]) -> bool:
    several = [run(function, arguments, seed, **keywords) for seed in (1, 2, 3)]
    return not alike(several[0], several[1]) or not alike(several[1], several[2])


@pytest.mark.parametrize("name", runnable())
def test_two_seeds_differ_where_the_row_says_that_it_draws(name: str) -> None:
    row, function, arguments = called(name)
    keywords = _ON.get(name, {})
    assert _draws(row, arguments, keywords) is _differ(function, arguments, keywords)
    if row.draws:
        places, keywords = _OFF[name]
        arguments = [places.get(place, one) for place, one in enumerate(arguments)]
        assert not _draws(row, arguments, keywords)
        assert not _differ(function, arguments, keywords)


@pytest.mark.parametrize("name", of(lambda row: bool(row.keeps)))
def test_what_a_row_keeps_stays(name: str) -> None:
    row, function, arguments = called(name)
    given = _flat(arguments)
    given = given[1:] if name == "where" else given
    put_out = run(function, arguments)
    if row.kind is not Kind.JOIN:
        several = row.kind in (Kind.SLICE, Kind.REDUCTION)
        given, put_out = given[:1], put_out if several else put_out[:1]
    before, after = (torch.cat([one.flatten() for one in several]) for several in (given, put_out))
    if "order" in row.keeps:
        assert torch.equal(before, after)
    if "multiset" in row.keeps:
        assert torch.equal(before.sort().values, after.sort().values)
    if "subset" in row.keeps:
        assert torch.isin(after, before).all()
        assert len(after) <= len(before)
    if "norm" in row.keeps:
        assert torch.isclose(before.norm(), after.norm())
    if "opposites" in row.keeps:
        assert torch.equal(before, -after)
    if "extremes" in row.keeps:
        assert (after.max(), after.min()) == (before.max(), before.min())


@pytest.mark.parametrize("name", of(lambda row: row.kind is Kind.POINTWISE))
def test_a_pointwise_row_takes_each_element_for_itself(name: str) -> None:
    _, function, arguments = called(name)
    shape = next(one.shape for one in arguments if isinstance(one, torch.Tensor) and one.dim() > 1)
    order = torch.randperm(shape.numel(), generator=torch.Generator().manual_seed(1))

    def moved(one: Any) -> Any:
        is_all = isinstance(one, torch.Tensor) and one.shape == shape
        return one.flatten()[order].reshape(shape) if is_all else one

    [result] = run(function, arguments)
    assert result.shape == shape
    assert alike([moved(result)], run(function, map(moved, arguments)))


@pytest.mark.parametrize(
    "name",
    of(
        lambda row: (
            row.kind is Kind.SUM
            or ("products" in row.condition and not row.traits & {"attention", "recurrent", "cell"})
        )
    ),
)
def test_a_sum_or_a_product_is_linear_in_what_it_is_given_first(name: str) -> None:
    _, function, arguments = called(name)
    place = next(at for at, one in enumerate(arguments) if not isinstance(one, str))
    if not isinstance(arguments[place], torch.Tensor):
        arguments, function = [*arguments[0]], lambda *several, own=function: own(several)
    step = torch.ones_like(arguments[place])

    def at(times: float) -> torch.Tensor:
        return run(
            function, [*arguments[:place], arguments[place] + times * step, *arguments[place + 1 :]]
        )[0]

    assert torch.allclose((at(1) - at(0)).double(), (at(5) - at(4)).double(), atol=1e-9)


@pytest.mark.parametrize("name", of(lambda row: row.kind is Kind.REDUCTION))
def test_a_reduction_puts_out_less(name: str) -> None:
    _, function, arguments = called(name)
    assert run(function, arguments)[0].numel() < _flat(arguments)[0].numel()


@pytest.mark.parametrize("name", of(lambda row: row.kind in (Kind.CHOICE, Kind.COMPARE)))
def test_a_choice_or_comparison_has_no_fractions(name: str) -> None:
    _, function, arguments = called(name)
    last = run(function, arguments)[-1]
    assert torch.equal(last.double(), last.double().round())


@pytest.mark.parametrize("name", of(lambda row: row.kind in (Kind.MASK, Kind.PLACE, Kind.PICK)))
def test_what_is_masked_placed_or_picked_is_not_computed(name: str) -> None:
    row, function, arguments = called(name)
    if row.condition or name in ("scatter_reduce", "index_reduce"):
        pytest.skip("it adds up as well")
    given = torch.cat([one.flatten().double() for one in _flat(arguments)] + [torch.tensor([0.0])])
    assert torch.isin(run(function, arguments)[0].double(), given).all()


@pytest.mark.parametrize("name", of(lambda row: "commutative" in row.traits))
def test_a_commutative_row_may_be_given_its_operands_in_either_order(name: str) -> None:
    _, function, arguments = called(name)
    assert alike(run(function, arguments), run(function, arguments[::-1]))


def _unary() -> list[str]:
    found = of(lambda row: row.kind is Kind.POINTWISE)
    return [name for name in found if len(arguments_of(named(name))) == 1]


def _slopes(function: Callable[..., Any], at: torch.Tensor) -> torch.Tensor:
    one = at.clone().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = function(one)
    if not result.requires_grad:
        return torch.zeros_like(at)
    result.sum().backward()
    assert one.grad is not None
    return one.grad


# Functions that are steep at an end of where they are defined, and have no word for it.
_STEEP = frozenset("acos acosh asin atanh erfinv lgamma log1p logit".split())
_GRID = torch.linspace(-8, 8, 32001, dtype=torch.float64) + 1e-5


@pytest.mark.parametrize("name", _unary())
def test_a_function_breaks_where_its_row_says_so(name: str) -> None:
    """Jumps of the value and of the slope between neighbours of a fine grid."""
    row, function, _ = called(name)
    value, slope = run(function, [_GRID])[0].double(), _slopes(function, _GRID)
    inside = value.isfinite() & slope.isfinite() & (value.abs() < 20) & (slope.abs() < 20)
    if row.condition & {"slope", "smallest"} or name in _STEEP:
        inside &= (_GRID > 0.3) & (_GRID < 0.7)  # not where the slope has no bound
    both = inside[1:] & inside[:-1]
    jumps = bool((value.diff().abs()[both] > 0.5).any())
    kinks = bool((slope.diff().abs()[both] > 0.09).any())
    if row.breaks & {"jumps", "steps"}:
        assert jumps
    else:
        assert not jumps
        assert kinks is ("kink" in row.breaks)


@pytest.mark.parametrize("name", _unary())
def test_the_condition_of_a_function_is_what_its_row_says(name: str) -> None:
    """By which fraction the result moves where its input moves by a fraction: x f'(x) / f(x)."""
    row, function, _ = called(name)

    def condition(*points: float) -> float:
        at = torch.tensor(points, dtype=torch.float64)
        value, slope = run(function, [at])[0], _slopes(function, at)
        times = (at * slope / value).abs()
        return float(times[times.isfinite()].max())

    if "periodic" in row.condition:
        assert condition(3.14159, 1.5708) > 1e4
    if "near_one" in row.condition:
        assert condition(1.0001) > 1e3
    if "reach" in row.condition and not row.condition & {"periodic", "near_one"}:
        assert condition(8.0, -8.0, 0.999) > 3
    if "exponential" in row.condition:  # x f'(x) / f(x) is x at most
        at = torch.linspace(-9, 9, 181, dtype=torch.float64)
        assert (_slopes(function, at) / run(function, [at])[0]).abs().max() <= 1 + 1e-6
    if "powers" in row.condition:
        assert condition(-3.0, 0.5, 8.0) == pytest.approx(2.0)
    if "bounded" in row.condition:
        at = torch.linspace(-9, 9, 181, dtype=torch.float64) + 0.01
        assert _slopes(function, at).abs().max() < 2  # 1.8 of selu
    if "slope" in row.condition:
        at = torch.tensor([1e-6, 1.0], dtype=torch.float64)
        steep, gentle = _slopes(function, at).abs()
        assert steep > 100 * gentle
    if "smallest" in row.condition:
        small, large = run(function, [torch.tensor([1e-6, 1.0])])[0].abs()
        assert small > 100 * large


# Values of arguments that no forward value depends on: the first is the default.
_VALUES: dict[str, tuple[Any, Any]] = {
    "padding_idx": (None, 1),
    "scale_grad_by_freq": (False, True),
    "sparse": (False, True),
    "non_blocking": (False, True),
    "copy": (False, True),
    "memory_format": (torch.preserve_format, torch.contiguous_format),
}
_POSITIONAL = {"batch_norm": 5, "instance_norm": 5, "to": 2, "embedding": 2}


@pytest.mark.parametrize(
    ("name", "argument"),
    [(name, one) for name in of(lambda row: bool(row.idle)) for one in sorted(named(name).idle)],
)
def test_an_idle_argument_changes_no_forward_value(name: str, argument: str) -> None:
    _, function, arguments = called(name)
    if argument not in _VALUES:
        pytest.skip("torch's public function does not take it")
    results = [run(function, arguments, **{argument: value}) for value in _VALUES[argument]]
    assert alike(*results)
    assert alike(results[0], run(function, arguments))


_LITERALS = {"None": None, "True": True, "False": False}


def _value(text: str) -> Any:
    if text in _LITERALS:
        return _LITERALS[text]
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return text


@pytest.mark.parametrize(
    ("name", "argument"),
    [(name, one) for name in of(lambda row: bool(row.acts)) for one in named(name).acts],
)
def test_a_default_is_what_a_call_without_the_argument_takes(name: str, argument: str) -> None:
    row, function, arguments = called(name)
    default = row.arguments[argument]
    assert default.default is not None
    if 0 <= default.place < len(arguments):
        return  # given already
    if name in ("clamp", "clip", "grid_sample", "interpolate") and default.default in (
        "None",
        "False",
    ):
        return  # the default depends on what else is given
    given = run(function, arguments, **{argument: _value(default.default)})
    assert alike(given, run(function, arguments))


_OTHERS = [
    (name, other)
    for name in of(lambda row: row.kind not in (Kind.CAST, Kind.MAKE, Kind.DRAW, Kind.EMPTY))
    for other in spellings("torch").get(name, ())
]
# They take what the row takes in another form, or operands the other way round.
_OTHER_FORM = frozenset(
    "frobenius_norm nuclear_norm cross_entropy_loss nll_loss_nd __setitem__ __rmatmul__ __rmod__"
    " _ctc_loss".split()
)


@pytest.mark.parametrize(("name", "other"), _OTHERS)
def test_other_names_give_the_same(name: str, other: str) -> None:
    """The first result, as lower functions put out more; what takes other arguments is left out."""
    _, function, arguments = called(name)
    same = function_of(other) or function_of(f"{other}_")
    if same is None or other in _OTHER_FORM:
        pytest.skip("no public function of this form")
    try:
        found = run(same, arguments)
    except (TypeError, RuntimeError, ValueError):
        pytest.skip("it takes other arguments")
    assert alike(found[:1], run(function, arguments)[:1])
