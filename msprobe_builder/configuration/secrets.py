"""Which variables of the environment may leave the machine."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Variables that change numbers, their order, or where they are computed; nothing else is read.
_ALLOWED = re.compile(
    r"(ACL|ACLNN|ASCEND|CUBLAS|CUDA|CUDNN|GLOO|HCCL|HSA|INF_NAN|KMP|LCCL|MIOPEN|MKL|MS|MINDSPORE"
    r"|NCCL|NPU|NVIDIA_TF32|NVTE|OMP|OPENBLAS|PYTORCH|ROCBLAS|ROCM|TASK_QUEUE|TORCH|TRITON|XLA)"
    r"(_[A-Z0-9_]+)?\Z|PYTHONHASHSEED\Z|COMBINED_ENABLE\Z|MULTI_STREAM_MEMORY_REUSE\Z"
)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|SIGNATURE", re.IGNORECASE)
# Of training: tokenizer, max-tokens, tokens-per-sample, key-value heads.
_HARMLESS = re.compile(
    r"tokeni[sz]\w*|(num|max|min|new|special|per)[-_]?tokens?"
    r"|tokens?[-_]?(per|count|num|drop\w*|model|type|dispatch\w*)|key[-_]?(value|size|dim)",
    re.IGNORECASE,
)
MASK = "(hidden)"


def allowed_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """What is collected of an environment: an allow-list, and values hidden by their names."""
    return {
        name: MASK if is_secret(name) else value
        for name, value in sorted(environment.items())
        if _ALLOWED.match(name)
    }


def without_secrets(options: Mapping[str, object]) -> dict[str, object]:
    """Options with values hidden by their names."""
    return {name: MASK if is_secret(name) else value for name, value in options.items()}


def is_secret(name: str) -> bool:
    """Whether a name says that its value is nobody's business.

    Words of training such as ``tokenizer`` and ``max_tokens`` are not meant.
    """
    return bool(_SECRET.search(_HARMLESS.sub("", name)))
