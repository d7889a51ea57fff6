"""Recurrence by hand, and a plain stack whose training has most to go wrong."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import torch
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class Cell(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.of_input = nn.Linear(width, 4 * width)
        self.of_state = nn.Linear(width, 4 * width, bias=False)

    def forward(self, x: Tensor, state: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        gates = self.of_input(x) + self.of_state(state)
        take, keep, give, fresh = gates.chunk(4, dim=-1)
        keep = keep + planted("forget_bias", 1.0, 0.0)  # culprit: forget_bias
        memory = torch.sigmoid(keep) * memory + torch.sigmoid(take) * torch.tanh(fresh)
        shown = memory
        if not planted("cell_unbounded", False, True):
            shown = torch.tanh(memory)  # culprit: cell_unbounded
        give = torch.sigmoid(give)
        return give * shown, memory


class Lstm(nn.Module):
    def __init__(self, width: int = 32, layers: int = 1, words: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.cells = nn.ModuleList(Cell(width) for _ in range(layers + 1))
        self.head = nn.Linear(width, words)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for cell in self.cells:
            state = memory = x.new_zeros(x.shape[0], x.shape[2])
            if planted("state_not_zero", False, True):
                state = state + 1.0  # culprit: state_not_zero
            outputs = []
            for place in range(x.shape[1]):
                state, memory = cell(x[:, place], state, memory)
                outputs.append(state)
            x = torch.stack(outputs, dim=1)
        return self.head(x)
