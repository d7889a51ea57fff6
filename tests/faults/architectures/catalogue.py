"""The models by name, and what each is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.faults.architectures import (
    arrivals,
    decoders,
    fresh,
    latecomers,
    masked,
    mixers,
    newcomers,
    sequence,
    strangers,
    unseen,
    vision,
    windowed,
)

ARCHITECTURES: dict[str, tuple[Callable[..., Any], str]] = {
    "llama": (decoders.Llama, "words"),
    "gpt2": (decoders.Gpt2, "words"),
    "moe": (decoders.Moe, "words"),
    "vit": (vision.Vit, "pictures"),
    "resnet": (vision.ResNet, "pictures"),
    "lstm": (sequence.Lstm, "words"),
    "t5": (unseen.T5, "words"),
    "unet": (unseen.UNet, "pictures"),
    "scan": (mixers.Scan, "words"),
    "recommender": (mixers.Recommender, "bags"),
    "tagger": (mixers.Tagger, "words"),
    "routed": (fresh.Routed, "words"),
    "depthwise": (fresh.Depthwise, "pictures"),
    "tied": (fresh.Tied, "words"),
    "latent": (strangers.Latent, "words"),
    "modulated": (strangers.Modulated, "pictures"),
    "graph": (strangers.Graph, "words"),
    "speech": (strangers.Speech, "words"),
    "towers": (strangers.Towers, "bags"),
    "mixer": (newcomers.TimeMixer, "words"),
    "listener": (newcomers.Listener, "words"),
    "variational": (newcomers.Variational, "pictures"),
    "objects": (newcomers.Objects, "pictures"),
    "written": (latecomers.Written, "words"),
    "denoiser": (latecomers.Denoiser, "pictures"),
    "mixed": (latecomers.Mixed, "pictures"),
    "coded": (latecomers.Coded, "pictures"),
    "transducer": (arrivals.Transducer, "words"),
    "translator": (arrivals.Translator, "words"),
    "opponents": (arrivals.Opponents, "pictures"),
    "topped": (arrivals.Topped, "words"),
    "windows": (windowed.Windows, "pictures"),
    "next": (windowed.Next, "pictures"),
    "kv": (windowed.Kv, "words"),
    "capped": (masked.Capped, "words"),
    "sloped": (masked.Sloped, "words"),
}
