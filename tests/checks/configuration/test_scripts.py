"""Launch scripts: which options and variables a training gets, without running anything."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from msprobe_checks.configuration.shell import read_script

SCRIPT = r"""#!/bin/bash
# a comment with --not-an-option 3
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-2}

DISTRIBUTED_ARGS="
    --nproc_per_node $GPUS_PER_NODE \
    --nnodes $NNODES
"
GPT_ARGS=(
    --num-layers 24   # as published
    --hidden-size 1024
    --lr 1e-4 --min-lr=1.0e-5
    --bf16
    --seed 1234
    --init-offset -0.5
    --data-path "a b" c
)
MORE="--use-flash-attn --clip-grad 1.0"

torchrun $DISTRIBUTED_ARGS pretrain_gpt.py \
    "${GPT_ARGS[@]}" \
    $MORE \
    --swiglu > log.txt 2>&1
echo done --later 5
"""


def test_options_of_a_launch_script() -> None:
    assert read_script(SCRIPT).options == {
        "nproc-per-node": "8",
        "nnodes": "2",
        "num-layers": "24",
        "hidden-size": "1024",
        "lr": "1e-4",
        "min-lr": "1.0e-5",
        "bf16": "true",
        "seed": "1234",
        "init-offset": "-0.5",
        "data-path": "a b c",
        "use-flash-attn": "true",
        "clip-grad": "1.0",
        "swiglu": "true",
    }


def test_variables_that_a_script_gives_to_the_training() -> None:
    script = """
        LEVEL=2
        export HCCL_DETERMINISTIC=true NCCL_DEBUG=$LEVEL
        CUDA_LAUNCH_BLOCKING=0
        export CUDA_LAUNCH_BLOCKING
        NVTE_FUSED_ATTN=0 torchrun train.py --seed 1
        HIDDEN=3
    """
    assert read_script(script).exports == {
        "HCCL_DETERMINISTIC": "true",
        "NCCL_DEBUG": "2",
        "CUDA_LAUNCH_BLOCKING": "0",
        "NVTE_FUSED_ATTN": "0",
    }


def test_short_options_are_no_values() -> None:
    script = "python train.py --amp -n 3 --shift -0.5 --scale -1"
    assert read_script(script).options == {"amp": "true", "shift": "-0.5", "scale": "-1"}


NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=8)
VALUES = st.none() | st.integers(-99, 99).map(str) | st.text(string.ascii_letters, min_size=1)


@given(st.dictionaries(NAMES, VALUES, max_size=8), st.booleans())
def test_every_option_keeps_its_value(options: dict[str, str | None], in_variable: bool) -> None:
    """A flag is never given the next option as its value."""
    words = " ".join(
        f"--{name}" + (f" {value}" if value else "") for name, value in options.items()
    )
    script = f'ARGS="{words}"\npython train.py $ARGS' if in_variable else f"python train.py {words}"
    assert read_script(script).options == {name: value or "true" for name, value in options.items()}


@given(st.text(max_size=200))
def test_any_text_is_read_without_failing(text: str) -> None:
    read_script(text)
