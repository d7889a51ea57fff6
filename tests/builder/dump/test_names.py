"""The grammar of dump names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.dump.name_columns import columns_of_names
from msprobe_builder.dump.names import (
    Direction,
    Kind,
    Name,
    format_name,
    parse_gradients,
    parse_name,
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Torch.matmul.2.forward", Name(Kind.API, "Torch.matmul", Direction.FORWARD, 2)),
        ("Tensor.__add__.4.backward", Name(Kind.API, "Tensor.__add__", Direction.BACKWARD, 4)),
        (
            "Module.0.module.decoder.layers.3.mlp.MLP.forward.1",
            Name(Kind.MODULE, "Module.0.module.decoder.layers.3.mlp.MLP", Direction.FORWARD, 1),
        ),
        ("Cell.net.Dense.backward.0", Name(Kind.MODULE, "Cell.net.Dense", Direction.BACKWARD, 0)),
        ("optimizer", Name(Kind.MODULE, "optimizer", Direction.NONE, 0)),
        (
            "Module.fc.Linear.parameters_grad",
            Name(Kind.MODULE, "Module.fc.Linear.parameters_grad", Direction.NONE, 0),
        ),
        # A dot after the prefix is a dot: these are no APIs of Tensor or Module.
        ("Tensors.add.0.forward", Name(Kind.API, "Tensors.add", Direction.FORWARD, 0)),
        ("Torch.add.007.forward", Name(Kind.API, "Torch.add.007.forward", Direction.NONE, 0)),
    ],
)
def test_taken_apart(text: str, name: Name) -> None:
    assert parse_name(text) == name


_WORDS = st.sampled_from(
    ["Module", "Torch", "x", "0", "3", "forward", "backward", "parameters_grad", "", "é\n"]
)


_NAMES = st.lists(_WORDS, min_size=1, max_size=7).map(".".join) | st.text(max_size=30)


@given(st.lists(_NAMES, max_size=5))
def test_many_are_taken_apart_alike(texts: list[str]) -> None:
    kind, direction, stem, call, stems = columns_of_names(texts)
    columns = (kind, stem, direction, call)
    several = zip(*(column.tolist() for column in columns), strict=True)
    parsed = [(kind, stems[stem], direction, call) for kind, stem, direction, call in several]
    assert parsed == [tuple(parse_name(text)) for text in texts]
    assert stems == list(dict.fromkeys(one[1] for one in parsed))


@given(_NAMES)
def test_nothing_is_lost(text: str) -> None:
    assert format_name(parse_name(text)) == text


def test_gradients() -> None:
    assert parse_gradients("Module.fc.Linear.parameters_grad") == ("Module.fc.Linear", None)
    assert parse_gradients("Module.fc.Linear.parameters_grad.2") == ("Module.fc.Linear", 2)
    assert parse_gradients("Module.fc.Linear.forward.0") is None
