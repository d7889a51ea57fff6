"""Groups between pairs: five neighbours of each kind, as small programs with other weights."""

from __future__ import annotations

import pytest

from tests.alignment.written import Group, found, group

START = """
    a:2x6x8 = Functional.embedding IDS:2x6 TABLE:20x8
    x:2x6x8 = Functional.relu a
"""
END = """
    z:2x6x8 = Functional.softmax y
    e:2x6x5 = Functional.linear z HEAD:5x8
"""


def of(mine: str, theirs: str, *, is_structure: bool = False) -> tuple[set[Group], dict[str, str]]:
    return found(START + mine + END, START + theirs + END, is_structure=is_structure)


BIASES = {
    "a sum": ("y:2x6x8 = Functional.linear x W:8x8 B:8",
              "p:2x6x8 = Torch.matmul x W:8x8\n y:2x6x8 = Tensor.__add__ p B:8",
              ("linear.0", "matmul.0 __add__.0")),
    "a product of another kind": ("y:2x6x8 = Functional.linear x W:8x8 B:8",
              "p:2x6x8 = Torch.einsum x W:8x8\n y:2x6x8 = Tensor.__add__ p B:8",
              ("linear.0", "einsum.0 __add__.0")),
    "the bias first": ("y:2x6x8 = Functional.linear x W:8x8 B:8",
              "p:2x6x8 = Torch.matmul x W:8x8\n y:2x6x8 = Tensor.__add__ B:8 p",
              ("linear.0", "matmul.0 __add__.0")),
    "behind a view": ("y:2x6x8 = Functional.linear x W:8x8 B:8",
              "p:2x6x8 = Torch.matmul x W:8x8\n q~p:2x6x2x4 = Tensor.view p\n"
              "r:2x6x2x4 = Tensor.__add__ q B:2x4\n y~r:2x6x8 = Tensor.reshape r",
              ("linear.0", "matmul.0 view.0 __add__.0")),
    "an activation behind": ("p:2x6x8 = Functional.linear x W:8x8 B:8\n"
              "y:2x6x8 = Functional.gelu p",
              "p:2x6x8 = Torch.matmul x W:8x8\n q:2x6x8 = Tensor.__add__ p B:8\n"
              "r:2x6x8 = Torch.erf q\n y:2x6x8 = Tensor.__mul__ q r",
              ("linear.0", "matmul.0 __add__.0")),
}  # fmt: skip


@pytest.mark.parametrize("case", BIASES)
def test_a_bias_that_one_side_adds_by_a_call_belongs_to_the_product(case: str) -> None:
    mine, theirs, members = BIASES[case]
    groups, pairs = of(mine, theirs)
    assert group(*members) in groups
    assert pairs["softmax.0"] == "softmax.0"


def test_what_is_added_beside_a_bias_stays_by_itself() -> None:
    """Both take a bias in; what one adds besides is none."""
    groups, pairs = of(
        "y:2x6x8 = Functional.linear x W:8x8 B:8",
        "p:2x6x8 = Functional.linear x W:8x8 B:8\n y:2x6x8 = Tensor.__add__ p C:8",
    )
    assert pairs["linear.0"] == "linear.0"
    assert not any("__add__.0" in theirs for _, theirs in groups)


NORMS = {
    "moments": ("y:2x6x8 = Functional.layer_norm x G:8 B:8",
        "m:2x6x1 = Tensor.mean x\n d:2x6x8 = Tensor.__sub__ x m\n s:2x6x8 = Tensor.__mul__ d d\n"
        "v:2x6x1 = Tensor.mean s\n r:2x6x1 = Torch.rsqrt v\n n:2x6x8 = Tensor.__mul__ d r\n"
        "g:2x6x8 = Tensor.__mul__ n G:8\n y:2x6x8 = Tensor.__add__ g B:8",
        ("layer_norm.0",
         "mean.0 __sub__.0 __mul__.0 mean.1 rsqrt.0 __mul__.1 __mul__.2 __add__.0")),
    "squares": ("y:2x6x8 = Functional.rms_norm x G:8",
        "s:2x6x8 = Tensor.pow x\n v:2x6x1 = Tensor.mean s\n r:2x6x1 = Torch.rsqrt v\n"
        "n:2x6x8 = Tensor.__mul__ x r\n y:2x6x8 = Tensor.__mul__ n G:8",
        ("rms_norm.0", "pow.0 mean.0 rsqrt.0 __mul__.0 __mul__.1")),
    "an activation": ("y:2x6x8 = Functional.silu x",
        "s:2x6x8 = Torch.sigmoid x\n y:2x6x8 = Tensor.__mul__ x s",
        ("silu.0", "sigmoid.0 __mul__.0")),
    "casts around": ("y:2x6x8 = Functional.silu x",
        "c~x:2x6x8 = Tensor.float x\n s:2x6x8 = Torch.sigmoid c\n m:2x6x8 = Tensor.__mul__ c s\n"
        "y~m:2x6x8 = Tensor.to m",
        ("silu.0", "sigmoid.0 __mul__.0")),
    "two against two": ("s:2x6x8 = Torch.sqrt x\n y:2x6x8 = Tensor.__truediv__ x s",
        "s:2x6x8 = Torch.rsqrt x\n y:2x6x8 = Tensor.__mul__ x s",
        ("sqrt.0 __truediv__.0", "rsqrt.0 __mul__.0")),
}  # fmt: skip


@pytest.mark.parametrize("is_structure", [False, True], ids=["values", "structure"])
@pytest.mark.parametrize("case", NORMS)
def test_what_is_between_two_pairs_does_the_same(case: str, *, is_structure: bool) -> None:
    mine, theirs, members = NORMS[case]
    groups, pairs = of(mine, theirs, is_structure=is_structure)
    assert groups == {group(*members)}
    assert pairs["softmax.0"] == "softmax.0"


INNER = {
    "gelu": ("g:2x6x8 = Functional.gelu p", "r:2x6x8 = Torch.erf p\n g:2x6x8 = Torch.mul p r",
             ("gelu.0", "erf.0 mul.0")),
    "silu": ("g:2x6x8 = Functional.silu p",
             "r:2x6x8 = Torch.sigmoid p\n g:2x6x8 = Torch.mul p r", ("silu.0", "sigmoid.0 mul.0")),
    "a gate": ("g:2x6x8 = Torch.glu p", "r:2x6x8 = Torch.tanh p\n g:2x6x8 = Torch.mul r p",
               ("glu.0", "tanh.0 mul.0")),
    "a norm": ("g:2x6x8 = Functional.rms_norm p G:8",
               "s:2x6x8 = Tensor.pow p\n v:2x6x1 = Tensor.mean s\n r:2x6x1 = Torch.rsqrt v\n"
               "n:2x6x8 = Torch.mul p r\n g:2x6x8 = Torch.mul n G:8",
               ("rms_norm.0", "pow.0 mean.0 rsqrt.0 mul.0 mul.1")),
    "two against two": ("s:2x6x8 = Torch.sqrt p\n g:2x6x8 = Torch.div p s",
                        "s:2x6x8 = Torch.rsqrt p\n g:2x6x8 = Torch.mul p s",
                        ("sqrt.0 div.0", "rsqrt.0 mul.0")),
}  # fmt: skip


@pytest.mark.parametrize("case", INNER)
def test_a_bias_may_stand_before_what_is_multiplied(case: str) -> None:
    mine, theirs, members = INNER[case]
    groups, pairs = of(
        f"p:2x6x8 = Functional.linear x W:8x8 B:8\n {mine}\n"
        "y:2x6x8 = Functional.linear g V:8x8 C:8",
        f"p:2x6x8 = Torch.addmm B:8 x W:8x8\n {theirs}\n y:2x6x8 = Torch.addmm C:8 g V:8x8",
    )
    assert group(*members) in groups
    assert (pairs["linear.0"], pairs["linear.1"]) == ("addmm.0", "addmm.1")


def test_what_comes_of_another_tensor_is_no_group() -> None:
    """One side works on what the activation makes, the other one on what it is given."""
    groups, _ = of(
        "y:2x6x8 = Functional.silu x",
        "s:2x6x8 = Torch.sigmoid a\n y:2x6x8 = Tensor.__mul__ a s",
    )
    assert not groups


FUSED = "p:2x6x24 = Functional.linear x W:24x8 B:24\n q:2x6x8 k:2x6x8 v:2x6x8 = Tensor.chunk p\n"
ATTENDED = "y:2x6x8 = Functional.scaled_dot_product_attention {} {} {}"
PARTS = {
    "three": FUSED + ATTENDED.format("q", "k", "v"),
    "value first": "p:2x6x24 = Functional.linear x W:24x8 B:24\n"
    "v:2x6x8 q:2x6x8 k:2x6x8 = Tensor.chunk p\n" + ATTENDED.format("q", "k", "v"),
    "slices": "p:2x6x24 = Functional.linear x W:24x8 B:24\n"
    "q:2x6x8 = Tensor.__getitem__ p\n k:2x6x8 = Tensor.__getitem__ p\n"
    "v:2x6x8 = Tensor.__getitem__ p\n" + ATTENDED.format("q", "k", "v"),
    "one bias lacks": FUSED.replace("B:24", "B:16") + ATTENDED.format("q", "k", "v"),
    "a view before": "p:2x6x24 = Functional.linear x W:24x8 B:24\n r~p:2x6x3x8 = Tensor.view p\n"
    "q:2x6x8 k:2x6x8 v:2x6x8 = Tensor.unbind r\n" + ATTENDED.format("q", "k", "v"),
}


@pytest.mark.parametrize("case", PARTS)
def test_fused_projections_come_of_the_same_in_any_order(case: str) -> None:
    apart = "\n".join(f"{one}:2x6x8 = Functional.linear x W{one}:8x8 B{one}:8" for one in "qkv")
    groups, pairs = of(
        PARTS[case],
        apart + "\n" + ATTENDED.format("q", "k", "v"),
    )
    [(mine, theirs)] = [one for one in groups if "linear.0" in one[0]]
    assert theirs == {"linear.0", "linear.1", "linear.2"}
    assert "scaled_dot_product_attention.0" not in mine
    assert pairs["scaled_dot_product_attention.0"] == "scaled_dot_product_attention.0"


def test_what_all_layers_share_is_a_group_of_its_own() -> None:
    """Positions are made once, by other calls on either side; each layer turns with them."""
    layer = "{0}c:2x6x8 = Tensor.__mul__ {1} c\n {0}:2x6x8 = Functional.{2} {0}c\n"
    other = "{0}c:2x6x8 = Torch.mul {1} c\n {0}s:2x6x8 = Torch.sin {0}c\n"
    other += "{0}:2x6x8 = Functional.{2} {0}s\n"
    steps = (("f", "x", "gelu"), ("g", "f", "elu"), ("y", "g", "selu"))
    groups, pairs = of(
        "b:6x8 = Torch.exp x\n c:6x8 = Torch.cos b\n"
        + "".join(layer.format(*one) for one in steps),
        "d:6x8 = Torch.exp x\n c:6x8 = Torch.tanh d\n"
        + "".join(other.format(*one) for one in steps),
    )
    assert {pairs[name] for name in ("gelu.0", "elu.0", "selu.0")} == {"gelu.0", "elu.0", "selu.0"}
    assert all(len(mine) <= 2 for mine, _ in groups)


TURNED = "{0}a:2x6x8 = Functional.linear x W{0}:8x8\n {0}b:2x6x8 = Torch.cos {0}a\n"
TURNED += "{0}:2x6x8 = Torch.mul {0}a {0}b\n"
PRODUCT = "p:2x6x6 = Torch.matmul {} {}\ny:2x6x8 = Functional.linear p OUT:8x6"
ORDERS = {
    "key first": ("kq", PRODUCT.format("q", "k")),
    "both scaled": (
        "kq",
        "s:2x6x8 = Tensor.__truediv__ q\n r:2x6x8 = Tensor.__truediv__ k\n"
        + PRODUCT.format("s", "r"),
    ),
    "scaled and in another form": (
        "kq",
        "s:2x6x8 = Tensor.__truediv__ q\n t~k:2x8x6 = Tensor.mT k\n" + PRODUCT.format("s", "t"),
    ),
    "scaled before": ("kq", "s:2x6x8 = Tensor.__truediv__ q\n" + PRODUCT.format("s", "k")),
    "key in another form": ("kq", "t~k:2x8x6 = Tensor.mT k\n" + PRODUCT.format("q", "t")),
}


@pytest.mark.parametrize("case", ORDERS)
def test_query_and_key_are_told_by_the_place_that_takes_them_in(case: str) -> None:
    """However many calls stand between, and whoever makes them first."""
    order, product = ORDERS[case]
    mine, theirs = sorted(order, key="qkv".index), order
    other = TURNED.replace("Torch.", "Tensor.").replace("Functional.linear", "Torch.einsum")
    groups, pairs = of(
        "".join(TURNED.format(one) for one in mine) + PRODUCT.format("q", "k"),
        "".join(other.format(one) for one in theirs) + product,
    )
    own, its = ({one: place for place, one in enumerate(names)} for names in (mine, theirs))
    for one in "qk":
        for stem, name in (("linear", "einsum"), ("cos", "cos"), ("mul", "mul")):
            call, right = f"{stem}.{own[one]}", f"{name}.{its[one]}"
            assert pairs.get(call, right) == right
            assert all((call in left) <= (right in members) for left, members in groups)


MULTIPLIED = "m:2x6x6 = Torch.matmul q k\n y:2x6x8 = Functional.linear m W:8x6"
SLICES = "q:2x6x4 = Tensor.__getitem__ x\n k:2x6x4 = Tensor.__getitem__ x\n"
CUTS = {
    "halves": "q:2x6x4 k:2x6x4 = Tensor.chunk x\n",
    "split": "q:2x6x4 k:2x6x4 = Torch.split x\n",
    "the other one first": "k:2x6x4 q:2x6x4 = Tensor.chunk x\n",
    "in another form": "r~x:2x6x2x4 = Tensor.view x\n q:2x6x4 k:2x6x4 = Tensor.unbind r\n",
    "scaled behind": "q:2x6x4 k:2x6x4 = Tensor.chunk x\n",
}


@pytest.mark.parametrize("case", CUTS)
def test_what_one_call_cuts_others_take_piece_by_piece(case: str) -> None:
    behind = MULTIPLIED
    if case == "scaled behind":
        behind = "s:2x6x4 = Tensor.neg k\n" + MULTIPLIED.replace("q k", "q s")
    groups, pairs = of(CUTS[case] + behind, SLICES + behind)
    [(mine, theirs)] = groups
    assert theirs == {"__getitem__.0", "__getitem__.1"}
    assert len(mine) == 1
    assert pairs["matmul.0"] == "matmul.0"


FORMS = {
    "by dimensions": "p~x:2x3x2x8 = Tensor.view x\n r:2x2x3x8 = Tensor.permute p\n"
    "y~r:2x6x8 = Tensor.reshape r",
    "by a transposition": "p~x:2x3x2x8 = Tensor.view x\n r:2x2x3x8 = Tensor.transpose p\n"
    "y~r:2x6x8 = Tensor.reshape r",
    "in one call": "y:2x6x8 = Tensor.permute x",
}
HALVES = "h:2x3x8 = Tensor.__getitem__ x\n i:2x3x8 = Tensor.__getitem__ x\n"
JOINED = {
    "halves": HALVES + "y:2x6x8 = Torch.cat h i",
    "halves in another form": HALVES + "c:2x3x16 = Torch.cat h i\n y~c:2x6x8 = Tensor.view c",
}


@pytest.mark.parametrize("joined", JOINED)
@pytest.mark.parametrize("form", FORMS)
def test_pieces_that_are_joined_anew_are_the_tensor_in_another_order(
    form: str, joined: str
) -> None:
    groups, _ = of(JOINED[joined], FORMS[form])
    [(mine, theirs)] = groups
    assert len(mine) == JOINED[joined].count(" = ")
    assert len(theirs) == FORMS[form].count(" = ")


MISSING = {
    "a sign": "s:2x6x8 = Tensor.sign x\n",
    "a product": "s:2x6x8 = Tensor.__mul__ x G:8\n",
    "two calls": "r:2x6x8 = Tensor.exp x\n s:2x6x8 = Torch.log1p r\n",
    "another form": "r~x:2x48 = Tensor.view x\n t:2x48 = Tensor.neg r\ns~t:2x6x8 = Tensor.view t\n",
    "a norm": "s:2x6x8 = Functional.layer_norm x G:8\n",
}


@pytest.mark.parametrize("case", MISSING)
def test_what_one_side_computes_in_front_of_a_move_is_in_no_group(case: str) -> None:
    """What is moved is another tensor on either side."""
    groups, _ = of("y:2x6x8 = Tensor.roll x", MISSING[case] + "y:2x6x8 = Tensor.transpose s")
    assert not groups


ONE = "c:2x6x8 = Torch.tanh x\n p:2x6x16 = Functional.linear c W:16x8\n"
TWO = "c:2x6x8 = Torch.tanh x\n q:2x6x8 = Functional.linear c V:8x8\n"
TWO += "r:2x6x8 = Functional.linear c U:8x8\n"
USED = "m:2x6x4 = Torch.mul s t\n n:2x6x4 = Torch.sub u v\n y:2x6x8 = Torch.cat m n"
SHIFTED = {
    "halves of each": ("s:2x6x4 t:2x6x4 u:2x6x4 v:2x6x4 = Tensor.chunk p\n",
        "s:2x6x4 t:2x6x4 = Tensor.chunk q\n u:2x6x4 v:2x6x4 = Tensor.chunk r\n"),
    "in another form": ("o~p:2x6x4x4 = Tensor.view p\n"
        "s:2x6x4 t:2x6x4 u:2x6x4 v:2x6x4 = Tensor.unbind o\n",
        "s:2x6x4 t:2x6x4 = Tensor.chunk q\n u:2x6x4 v:2x6x4 = Tensor.chunk r\n"),
    "slices of one": ("s:2x6x4 t:2x6x4 u:2x6x4 v:2x6x4 = Tensor.chunk p\n",
        "s:2x6x4 = Tensor.__getitem__ q\n t:2x6x4 = Tensor.__getitem__ q\n"
        "u:2x6x4 v:2x6x4 = Tensor.chunk r\n"),
    "slices of the fused": (
        "\n".join(f"{one}:2x6x4 = Tensor.__getitem__ p" for one in "stuv") + "\n",
        "s:2x6x4 t:2x6x4 = Tensor.chunk q\n u:2x6x4 v:2x6x4 = Tensor.chunk r\n"),
}  # fmt: skip


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("case", SHIFTED)
def test_a_fused_linear_and_all_that_cuts_its_result_is_one_group(
    case: str, *, is_turned: bool
) -> None:
    cuts = SHIFTED[case]
    mine, theirs = ONE + cuts[0] + USED, TWO + cuts[1] + USED
    groups, _ = of(*((theirs, mine) if is_turned else (mine, theirs)))
    [members] = groups
    one, other = members[::-1] if is_turned else members
    assert len(one) == 1 + cuts[0].count(" = ")
    assert len(other) == 2 + cuts[1].count(" = ")
