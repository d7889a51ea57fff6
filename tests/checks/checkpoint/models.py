"""One small model as many checkpoints: what each file must hold follows from Megatron's layout."""

from __future__ import annotations

import argparse
import json
from enum import Enum
from pathlib import Path

import torch

HIDDEN, HEADS, GROUPS, HEAD, FFN, VOCABULARY, LAYERS = 16, 4, 2, 4, 24, 30, 4

Model = dict[str, torch.Tensor]


class ModelType(Enum):
    """Stands for Megatron's own class, which is not installed where files are compared."""

    DECODER = 1


def llama(seed: int = 0) -> Model:
    """A model as Hugging Face names it."""
    generator = torch.Generator().manual_seed(seed)

    def made(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    model = {"model.embed_tokens.weight": made(VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        stem = f"model.layers.{layer}."
        model |= {
            f"{stem}input_layernorm.weight": made(HIDDEN),
            f"{stem}self_attn.q_proj.weight": made(HEADS * HEAD, HIDDEN),
            f"{stem}self_attn.k_proj.weight": made(GROUPS * HEAD, HIDDEN),
            f"{stem}self_attn.v_proj.weight": made(GROUPS * HEAD, HIDDEN),
            f"{stem}self_attn.o_proj.weight": made(HIDDEN, HEADS * HEAD),
            f"{stem}post_attention_layernorm.weight": made(HIDDEN),
            f"{stem}mlp.gate_proj.weight": made(FFN, HIDDEN),
            f"{stem}mlp.up_proj.weight": made(FFN, HIDDEN),
            f"{stem}mlp.down_proj.weight": made(HIDDEN, FFN),
        }
    return model | {"model.norm.weight": made(HIDDEN), "lm_head.weight": made(VOCABULARY, HIDDEN)}


def save_hugging_face(model: Model, directory: Path) -> Path:
    """Two safetensors files with an index."""
    from safetensors.torch import save_file

    directory.mkdir(parents=True)
    names = list(model)
    files = {"model-00001-of-00002.safetensors": names[::2]}
    files["model-00002-of-00002.safetensors"] = names[1::2]
    for file, own in files.items():
        save_file({name: model[name].contiguous() for name in own}, directory / file)
    weight_map = {name: file for file, own in files.items() for name in own}
    index = {"metadata": {}, "weight_map": weight_map}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    config = {"num_attention_heads": HEADS, "num_key_value_heads": GROUPS}
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def save_megatron(
    model: Model, directory: Path, tp: int = 1, pp: int = 1, vpp: int = 1, padded: int = VOCABULARY
) -> Path:
    """One file for each part, as Megatron core writes them."""
    iteration = directory / "iter_0000005"
    args = argparse.Namespace(
        tensor_model_parallel_size=tp,
        pipeline_model_parallel_size=pp,
        expert_model_parallel_size=1,
        num_attention_heads=HEADS,
        num_query_groups=GROUPS,
        group_query_attention=True,
        swiglu=True,
        model_type=ModelType.DECODER,
        activation=torch.nn.functional.gelu,
        params_dtype=torch.float32,
    )
    per_chunk = LAYERS // (pp * vpp)
    for rank in range(tp):
        for stage in range(pp):
            content: dict[str, object] = {"args": args, "iteration": 5, "rng_state": [b"x"]}
            for chunk in range(vpp):
                first = (chunk * pp + stage) * per_chunk
                own: Model = {}
                if stage == chunk == 0:
                    own["embedding.word_embeddings.weight"] = part(
                        rows_padded(model["model.embed_tokens.weight"], padded), rank, tp, 0
                    )
                for local in range(per_chunk):
                    own |= megatron_layer(
                        model, first + local, f"decoder.layers.{local}.", rank, tp
                    )
                if stage == pp - 1 and chunk == vpp - 1:
                    own["decoder.final_layernorm.weight"] = model["model.norm.weight"]
                    own["output_layer.weight"] = part(
                        rows_padded(model["lm_head.weight"], padded), rank, tp, 0
                    )
                content["model" if vpp == 1 else f"model{chunk}"] = own
            name = f"mp_rank_{rank:02d}" + (f"_{stage:03d}" if pp > 1 else "")
            (iteration / name).mkdir(parents=True)
            torch.save(content, iteration / name / "model_optim_rng.pt")
    (directory / "latest_checkpointed_iteration.txt").write_text("5")
    return directory


def megatron_layer(model: Model, layer: int, stem: str, rank: int, tp: int) -> Model:
    """One rank's part of a layer: heads group by group, its gate above its other factor."""
    at = f"model.layers.{layer}."
    q, k, v = (model[f"{at}self_attn.{one}_proj.weight"] for one in "qkv")
    blocks = []
    for group in range(GROUPS):
        own = HEADS // GROUPS * HEAD
        blocks += [q[group * own : (group + 1) * own]]
        blocks += [one[group * HEAD : (group + 1) * HEAD] for one in (k, v)]
    gate, up = (part(model[f"{at}mlp.{one}_proj.weight"], rank, tp, 0) for one in ("gate", "up"))
    return {
        f"{stem}self_attention.linear_qkv.layer_norm_weight": model[f"{at}input_layernorm.weight"],
        f"{stem}self_attention.linear_qkv.weight": part(torch.cat(blocks), rank, tp, 0),
        f"{stem}self_attention.linear_proj.weight": part(
            model[f"{at}self_attn.o_proj.weight"], rank, tp, 1
        ),
        f"{stem}mlp.linear_fc1.layer_norm_weight": model[f"{at}post_attention_layernorm.weight"],
        f"{stem}mlp.linear_fc1.weight": torch.cat([gate, up]),
        f"{stem}mlp.linear_fc2.weight": part(model[f"{at}mlp.down_proj.weight"], rank, tp, 1),
    }


def part(tensor: torch.Tensor, rank: int, count: int, dimension: int) -> torch.Tensor:
    """A rank's share, apart from the whole so that the file holds no more."""
    return tensor.chunk(count, dimension)[rank].clone()


def rows_padded(tensor: torch.Tensor, count: int) -> torch.Tensor:
    return torch.cat([tensor, torch.zeros(count - len(tensor), tensor.shape[1])])
