"""One name for a parameter in every family of model code, and fused projections taken apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from msprobe_checks.checkpoint.parameter import Checkpoint, Parameter, rows

_WRAPPERS = re.compile(
    r"\A((_orig_mod|module|_forward_module|_fsdp_wrapped_module|base_model\.model|model"
    r"|language_model|transformer)\.)+"
)
_INNER = re.compile(r"(?<=\.)(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
# Stem of a layer, then the spellings of what is in it. Hugging Face's llama gives the name, but
# where no family agrees on it; sources are the models' own published code.
_LAYER = re.compile(r"\A(?:(?:decoder|encoder)\.)?(?:layers|h|blocks)\.(\d+)\.(.*)\Z")
_IN_LAYER: dict[str, str] = {
    r"(self_attention\.linear_qkv\.layer_norm_|input_layernorm\.|attention_norm\.|ln_1\.)": (
        "input_layernorm."
    ),
    r"(mlp\.linear_fc1\.layer_norm_|pre_mlp_layernorm\.|ffn_norm\.|ln_2\."
    r"|post_attention_layernorm\.)": "post_attention_layernorm.",
    r"(self_attn|self_attention|attention)\.(q_proj|linear_q|wq)\.": "self_attn.q_proj.",
    r"(self_attn|self_attention|attention)\.(k_proj|linear_k|wk)\.": "self_attn.k_proj.",
    r"(self_attn|self_attention|attention)\.(v_proj|linear_v|wv)\.": "self_attn.v_proj.",
    r"(self_attn|self_attention|attention)\.(qkv_proj|linear_qkv|query_key_value)\.": (
        "self_attn.qkv."
    ),
    r"(self_attn|self_attention|attention)\.(o_proj|linear_proj|dense|wo)\.": "self_attn.o_proj.",
    r"(self_attn|self_attention)\.(q_norm|q_layernorm)\.": "self_attn.q_norm.",
    r"(self_attn|self_attention)\.(k_norm|k_layernorm)\.": "self_attn.k_norm.",
    r"(mlp|block_sparse_moe)\.(router|gate)\.": "mlp.router.",
    r"(mlp|block_sparse_moe)\.experts\.(local_experts\.)?(\d+)\.": r"mlp.experts.\3.",
    r"(feed_forward|mlp)\.(?=[a-z])": "mlp.",
}
_IN_FEED_FORWARD = (
    (re.compile(r"\.(gate_proj|w1)\.(?=[a-z]+\Z)"), ".gate_proj."),
    (re.compile(r"\.(up_proj|w3)\.(?=[a-z]+\Z)"), ".up_proj."),
    (re.compile(r"\.(down_proj|w2|linear_fc2|dense_4h_to_h)\.(?=[a-z]+\Z)"), ".down_proj."),
    (re.compile(r"\.(gate_up_proj|linear_fc1|dense_h_to_4h)\.(?=[a-z]+\Z)"), ".gate_up."),
)
_OUTSIDE: dict[str, str] = {
    r"(embedding\.word_embeddings|embed_tokens|wte|tok_embeddings|word_embeddings)\.weight": (
        "embed_tokens.weight"
    ),
    r"(embedding\.position_embeddings|wpe|position_embeddings)\.weight": "position.weight",
    r"(decoder\.final_layernorm|decoder\.final_norm|encoder\.final_layernorm|final_layernorm"
    r"|norm|ln_f)\.(weight|bias)": r"norm.\2",
    r"(output_layer|lm_head|output)\.(weight|bias)": r"lm_head.\2",
}
EMBEDDING, HEAD = "embed_tokens.weight", "lm_head.weight"


def plain_name(name: str) -> str:
    """The name without the wrappers of training frameworks."""
    return _INNER.sub("", _WRAPPERS.sub("", name))


def family_name(name: str) -> str:
    """The same name for the same parameter in all known families; others stay as they are."""
    name = plain_name(name)
    layer = _LAYER.match(name)
    if layer is None:
        for spelling, known in _OUTSIDE.items():
            if re.fullmatch(spelling, name):
                return re.sub(spelling, known, name)
        return name
    rest = layer[2]
    for spelling, known in _IN_LAYER.items():
        rest, count = re.subn(rf"\A{spelling}", known, rest)
        if count:
            break
    if rest.startswith("mlp."):
        for pattern, known in _IN_FEED_FORWARD:
            rest = pattern.sub(known, rest)
    return f"layers.{layer[1]}.{rest}"


def by_family(checkpoint: Checkpoint, groups: int | None) -> dict[str, Parameter]:
    """All parameters by their family names; fused projections as their parts.

    A fused projection whose blocks cannot be told keeps its name.
    """
    result: dict[str, Parameter] = {}
    sources = {family_name(name): one for name, one in checkpoint.parameters.items()}
    is_grouped = any(
        ".linear_qkv." in name or ".query_key_value." in name for name in checkpoint.parameters
    )
    for name, parameter in sources.items():
        parts = _parts(name, parameter, sources, groups, is_grouped)
        result.update(parts or {name: parameter})
    return result


def _parts(
    name: str,
    parameter: Parameter,
    beside: Mapping[str, Parameter],
    groups: int | None,
    is_grouped: bool,
) -> dict[str, Parameter]:
    if ".gate_up." in name:
        down = beside.get(re.sub(r"gate_up\.\w+\Z", "down_proj.weight", name))
        if down is None or parameter.shape[0] != 2 * down.shape[1]:
            return {name.replace(".gate_up.", ".up_proj."): parameter}
        half = parameter.shape[0] // 2
        return {
            name.replace(".gate_up.", ".gate_proj."): rows(parameter, [(0, half)]),
            name.replace(".gate_up.", ".up_proj."): rows(parameter, [(half, 2 * half)]),
        }
    if ".qkv." in name and groups:
        taking = beside.get(re.sub(r"qkv\.\w+\Z", "o_proj.weight", name))
        if taking is None:
            return {}
        cut = partial(_query_key_value, parameter.shape[0], taking.shape[1], groups)
        return _cut_by(name, parameter, cut, is_grouped)
    return {}


Ranges = list[tuple[int, int]]


def _query_key_value(total: int, queries: int, groups: int, grouped: bool) -> list[Ranges] | None:
    """Rows of queries, keys and values; Megatron has them group by group."""
    head, rest = divmod(total - queries, 2 * groups)
    if rest or head <= 0 or queries % groups:
        return None
    if not grouped:
        keys = head * groups
        return [[(0, queries)], [(queries, queries + keys)], [(queries + keys, total)]]
    own = queries // groups
    block = own + 2 * head
    starts = [group * block for group in range(groups)]
    return [
        [(at, at + own) for at in starts],
        [(at + own, at + own + head) for at in starts],
        [(at + own + head, at + block) for at in starts],
    ]


def _cut_by(
    name: str,
    parameter: Parameter,
    cut: Callable[[bool], list[Ranges] | None],
    is_grouped: bool,
) -> dict[str, Parameter]:
    ranges = cut(is_grouped)
    if ranges is None:
        return {}
    return {
        name.replace(".qkv.", f".{letter}_proj."): rows(parameter, own)
        for letter, own in zip("qkv", ranges, strict=True)
    }
