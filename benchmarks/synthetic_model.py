"""The hierarchy of a Llama-like training step, as a dump of it would show."""

from dataclasses import dataclass, field

# A module is its name below the parent and what runs inside it; an API is its bare name.
Template = str | tuple[str, list["Template"]]

MODULE, API, COLLECTION = 0, 1, 2
NONE, FORWARD, BACKWARD = 0, 1, 2

NORM: list[Template] = [
    *("Tensor.to", "Tensor.pow", "Tensor.mean", "Tensor.__add__", "Torch.rsqrt"),
    *("Tensor.__mul__", "Tensor.to", "Tensor.__mul__"),
]
ROTARY: list[Template] = [
    *("Tensor.unsqueeze", "Tensor.unsqueeze", "Tensor.__mul__", "Torch.cat", "Tensor.__mul__"),
    *("Tensor.__add__", "Tensor.__mul__", "Torch.cat", "Tensor.__mul__", "Tensor.__add__"),
]
ATTENTION: list[Template] = [
    *("Tensor.expand", "Tensor.reshape", "Tensor.expand", "Tensor.reshape", "Tensor.transpose"),
    *("Torch.matmul", "Tensor.__mul__", "Tensor.__add__", "Functional.softmax", "Tensor.to"),
    *("Functional.dropout", "Torch.matmul", "Tensor.transpose", "Tensor.reshape"),
]
FUSED_ATTENTION: list[Template] = ["NPU.npu_fusion_attention", "Tensor.reshape"]


def linear(name: str) -> Template:
    return (f"{name}.Linear", ["Functional.linear"])


def decoder_layer(index: int, fused: bool) -> Template:
    projections: list[Template] = []
    for name in ("q_proj", "k_proj", "v_proj"):
        projections += [linear(name), "Tensor.transpose"]
    attention = FUSED_ATTENTION if fused else ATTENTION
    mlp: list[Template] = [
        linear("gate_proj"),
        ("act_fn.SiLUActivation", ["Functional.silu"]),
        linear("up_proj"),
        "Tensor.__mul__",
        linear("down_proj"),
    ]
    return (
        f"layers.{index}.LlamaDecoderLayer",
        [
            ("input_layernorm.LlamaRMSNorm", NORM),
            ("self_attn.LlamaAttention", [*projections, *ROTARY, *attention, linear("o_proj")]),
            "Tensor.__add__",
            ("post_attention_layernorm.LlamaRMSNorm", NORM),
            ("mlp.LlamaMLP", mlp),
            "Tensor.__add__",
        ],
    )


def model(layers: int, fused_layers: int) -> list[Template]:
    blocks = [decoder_layer(index, index >= layers - fused_layers) for index in range(layers)]
    inside: list[Template] = [
        ("embed_tokens.Embedding", ["Functional.embedding"]),
        *("Torch.arange", "Tensor.__add__", "Tensor.expand", "Tensor.__le__", "Torch.where"),
        ("rotary_emb.LlamaRotaryEmbedding", ["Tensor.cos", "Tensor.sin"]),
        *blocks,
        ("norm.LlamaRMSNorm", NORM),
    ]
    return [("model.LlamaModel", inside), ("lm_head.Linear", ["Functional.linear"])]


# What an optimizer calls for each parameter, outside of all modules.
OPTIMIZER: list[Template] = [
    *("Tensor.lerp_", "Tensor.__mul__", "Tensor.addcmul_", "Torch.sqrt", "Tensor.addcdiv_"),
]
LOSS: list[Template] = ["Tensor.float", "Functional.pad", "Functional.cross_entropy"]


@dataclass
class Side:
    """The nodes of one graph as columns, in execution order."""

    parent: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    stem: list[str] = field(default_factory=list)
    direction: list[int] = field(default_factory=list)
    call: list[int | None] = field(default_factory=list)
    micro: list[int] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)

    def open(
        self, parent: int, kind: int, stem: str, direction: int, call: int | None, micro: int
    ) -> int:
        self.parent.append(parent)
        self.end.append(-1)
        self.kind.append(kind)
        self.stem.append(stem)
        self.direction.append(direction)
        self.call.append(call)
        self.micro.append(micro)
        return len(self.parent) - 1

    def close(self, node: int) -> None:
        self.end[node] = len(self.parent) - 1

    def next_call(self, stem: str) -> int:
        self.calls[stem] = self.calls.get(stem, -1) + 1
        return self.calls[stem]


def run_forward(side: Side, parent: int, scope: str, items: list[Template], micro: int) -> None:
    for item in items:
        if isinstance(item, str):
            node = side.open(parent, API, item, FORWARD, side.next_call(item), micro)
        else:
            stem = f"{scope}.{item[0]}"
            node = side.open(parent, MODULE, stem, FORWARD, micro, micro)
            run_forward(side, node, stem.rpartition(".")[0], item[1], micro)
        side.close(node)


def run_backward(
    side: Side, parent: int, forward: int, micro: int, children: dict[int, list[int]], last: bool
) -> None:
    """Mirror what ran forward; gradients of parameters appear once, in the last micro-step."""
    for twin in reversed(children.get(forward, [])):
        stem, kind = side.stem[twin], side.kind[twin]
        node = side.open(parent, kind, stem, BACKWARD, side.call[twin], micro)
        run_backward(side, node, twin, micro, children, last)
        if last and kind == MODULE and stem.endswith(("Linear", "LlamaRMSNorm", "Embedding")):
            side.close(side.open(node, MODULE, f"{stem}.parameters_grad", NONE, None, micro))
        side.close(node)


def run_step(layers: int, micro_steps: int, fused_layers: int, wide: int = 0) -> Side:
    """A whole step; after it ``wide`` calls of the optimizer, in one collection."""
    side = Side()
    root = side.open(-1, MODULE, "DefaultModel", NONE, None, 0)
    items = model(layers, fused_layers)
    for micro in range(micro_steps):
        first = len(side.parent)
        run_forward(side, root, "Module", items, micro)
        children: dict[int, list[int]] = {}
        for node in range(first, len(side.parent)):
            children.setdefault(side.parent[node], []).append(node)
        loss = side.open(root, COLLECTION, f"Apis_Between_Modules.{micro}", NONE, None, micro)
        run_forward(side, loss, "", LOSS, micro)
        side.close(loss)
        run_backward(side, root, root, micro, children, micro == micro_steps - 1)
    if wide:
        last = micro_steps - 1
        stem = f"Apis_Between_Modules.{micro_steps}"
        update = side.open(root, COLLECTION, stem, NONE, None, last)
        calls = (OPTIMIZER * (wide // len(OPTIMIZER) + 1))[:wide]
        run_forward(side, update, "", calls, last)
        side.close(update)
    side.close(root)
    return side
