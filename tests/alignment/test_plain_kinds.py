"""What classes of frameworks and operators do, as their documentation says it."""

from __future__ import annotations

from itertools import product

import pytest

from msprobe_builder.align.evidence import operators
from msprobe_builder.align.evidence.classes import kind_of_class
from msprobe_builder.operators.questions import Question
from msprobe_builder.operators.table import operator_of

# Modules of PyTorch, MindSpore and Megatron by what they do.
CLASSES = {
    "linear": ("Linear", "Dense", "Conv1d", "Conv2d", "ConvTranspose2d", "ColumnParallelLinear"),
    "recurrent": ("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell"),
    "attention": ("MultiheadAttention", "MultiHeadAttention", "FlashAttention"),
    "activation": ("ReLU", "GELU", "Sigmoid", "Tanh", "RReLU", "GLU", "PReLU", "Hardswish"),
    "softmax": ("Softmax", "LogSoftmax", "Softmin"),
    "norm": ("LayerNorm", "RMSNorm", "BatchNorm2d", "GroupNorm", "SyncBatchNorm", "FusedRMSNorm"),
    "loss": ("CrossEntropyLoss", "MSELoss", "NLLLoss", "KLDivLoss", "HuberLoss"),
    "pool": ("MaxPool2d", "AvgPool1d", "AdaptiveAvgPool2d", "LPPool2d"),
    "resampling": ("Upsample", "PixelShuffle"),
    "shape": ("Flatten", "Unflatten"),
    "dropout": ("Dropout", "Dropout2d", "Identity", "AlphaDropout", "DropPath"),
    "embedding": ("Embedding", "EmbeddingBag", "VocabParallelEmbedding"),
}
# What does several things, has no others beside it, or is a user's.
SEVERAL = ("LayerNormLinear", "LayerNormMLP", "Fold", "Unfold", "PixelUnshuffle", "Block", "Net")


def test_classes_of_one_kind_are_counterparts_and_of_others_are_not() -> None:
    kinds = {name: kind for kind, names in CLASSES.items() for name in names}
    for (one, kind), (two, other) in product(kinds.items(), repeat=2):
        assert (kind_of_class(one) == kind_of_class(two)) == (kind == other), (one, two)
        assert kind_of_class(one) >= 0, one
    assert {kind_of_class(one) for one in SEVERAL} == {-1}


# What each does to its first tensor: shows it in another form, converts it, takes or puts elements.
FORMS = ("Tensor.view", "Tensor.reshape", "Torch.transpose", "Tensor.expand", "Torch.split")
CASTS = ("Tensor.to", "Tensor.float", "Tensor.contiguous", "Tensor.clone", "Tensor.detach")
MOVES = ("Torch.cat", "Torch.stack", "Tensor.__getitem__", "Torch.flip", "Tensor.repeat")
MAPS = ("Functional.linear", "Torch.matmul", "Functional.conv2d", "Torch.bmm", "Torch.einsum")
WORK = ("Torch.relu", "Torch.add", "Functional.softmax", "Torch.sum", "Functional.layer_norm")
DROPOUT = "Functional.dropout"
SEVERAL_PRODUCTS = ("Functional.scaled_dot_product_attention", "Torch.lstm", "Torch.gru_cell")


@pytest.mark.parametrize(
    ("question", "those"),
    [
        (operators.casts, {*CASTS}),
        (operators.layouts, {*FORMS}),
        (operators.forms, {*CASTS, *FORMS}),
        (operators.moves, {*FORMS, *MOVES}),
        (operators.maybe_hands_on, {*CASTS, *FORMS, DROPOUT}),
        (operators.is_linear_map, {*MAPS}),
    ],
)
def test_what_alignment_asks_of_operators(question: Question, those: set[str]) -> None:
    known = (*FORMS, *CASTS, *MOVES, *MAPS, *WORK, DROPOUT, *SEVERAL_PRODUCTS)
    assert {stem for stem in known if question(operator_of(stem))} == those
    numbers = {operator_of(stem).name: place for place, stem in enumerate(known)}
    found = operators.numbers_of(numbers, question).tolist()
    assert found == [
        place
        for name, place in numbers.items()
        if name in {operator_of(stem).name for stem in those}
    ]
