"""``reproduce.py``: one file that shows a fault and needs nothing but torch.

Of an operator that is wrong it is the call alone, of anything else the places of the training.
"""

from __future__ import annotations

import base64
import io
import zlib
from pathlib import Path

import torch

from msprobe_bisect.journal import Journal
from msprobe_bisect.places import write_places
from msprobe_bisect.proof import Proof, Proven
from msprobe_bisect.stages import Found
from msprobe_builder.base.publish import written
from msprobe_operators.dump.operands import CannotRebuildError, operands
from msprobe_operators.dump.run import source_of
from msprobe_operators.report.script import source_text

_LINE = 100
_SCRIPT = '''"""{call}, with what it was given in the run that was debugged.

It is computed as there and in float64 on the CPU. It needs torch alone.

    python reproduce.py [DEVICE]

Status 1: the call is wrong here; 0: it is right; 2: it cannot be run.
"""

import base64
import io
import sys
import zlib

import torch

DATA = """
{data}
"""
LARGEST = {largest!r}  # share of the largest number that rounding explains
DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"


def operands(wide):
    kept = torch.load(io.BytesIO(zlib.decompress(base64.b64decode(DATA))), weights_only=True)

    def place(tensor):
        asks = tensor.requires_grad
        tensor = tensor.detach().to("cpu" if wide else DEVICE, copy=True)
        if wide and tensor.is_floating_point():
            tensor = tensor.double()
        return tensor.requires_grad_(asks)

    return [place(tensor) for tensor in kept]


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [one for part in value for one in flat(part)] if isinstance(value, (list, tuple)) else []


def run(wide):
    device = "cpu" if wide else DEVICE
    tensors = operands(wide)
    moved = [one.clone() if one.requires_grad else one for one in tensors]
    results = flat({function}({arguments}))
    found = [one for one in results if one.is_floating_point()]
    if {backward}:
        ends = [one for one in found if one.requires_grad]
        leaves = [one for one in tensors if one.requires_grad]
        drawn = torch.Generator().manual_seed(0)
        into = [torch.randn(one.shape, generator=drawn, dtype=torch.float64) for one in ends]
        into = [one.to(end.dtype).to(end.device) for one, end in zip(into, ends)]
        found = [one for one in torch.autograd.grad(ends, leaves, into, allow_unused=True)
                 if one is not None]
    return [one.detach().cpu().double() for one in found]


try:
    pairs = list(zip(run(False), run(True)))
except Exception as error:
    print(f"It cannot be run here: {{error}}")
    sys.exit(2)
wrong = False
for number, (one, other) in enumerate(pairs):
    if one.numel():
        share = float((one - other).abs().max() / other.abs().max().clamp_min(1e-300))
        wrong |= not share <= LARGEST
        print(f"{kind} {{number}}: off by {{share:.3g}} of its largest number, "
              f"allowed {{LARGEST:.3g}}")
sys.exit(1 if wrong else 0)
'''


def reproduce(found: Found, journal: Journal, path: Path) -> None:
    """Write what shows a fault; CannotRebuildError where nothing does."""
    wrong = (Proof.OPERATOR, Proof.REFERENCE, Proof.BOTH)
    if found.proven is not None and found.proven.proof in wrong:
        try:
            write_reproduction(found.proven, path)
            return
        except CannotRebuildError:
            pass  # the training makes the call with what cannot be written down
    write_places(found, journal, path)


def write_reproduction(proven: Proven, path: Path) -> None:
    """Write the call of a proof; CannotRebuildError where its operands are not all recorded."""
    assert proven.call is not None
    assert proven.dump is not None
    call = proven.call
    given = operands(f"{call.name}.forward", call.record, source_of(proven.dump / "dump.json"))
    kept: list[torch.Tensor] = []
    parts = [source_text(one, kept) for one in given.args]
    parts += [f"{key}={source_text(one, kept)}" for key, one in given.kwargs.items()]
    stream = io.BytesIO()
    torch.save(kept, stream)
    text = base64.b64encode(zlib.compress(stream.getvalue(), 9)).decode()
    lines = [text[start : start + _LINE] for start in range(0, len(text), _LINE)]
    kinds = [one.dtype for one in kept if one.is_floating_point()]
    rounding = max((torch.finfo(kind).eps for kind in kinds), default=2.0**-24)
    is_backward = proven.direction == "backward"
    script = _SCRIPT.format(
        call=f"{proven.name}.{proven.direction}",
        data="\n".join(lines),
        largest=64 * rounding,
        function=_function(call.name),
        arguments=", ".join(parts).replace("tensors[", "moved["),
        backward=is_backward,
        kind="gradient" if is_backward else "output",
    )
    with written(path) as output:
        output.write(script.encode())


def _function(name: str) -> str:
    """How to write the function of a call, as ``msprobe_operators.dump.calls`` finds it."""
    kind, *middle, _number = name.split(".")
    function = ".".join(middle)
    if kind == "Functional":
        return f"torch.nn.functional.{function}"
    if kind == "Tensor":
        return f"torch.Tensor.{function}"
    if kind == "VF":
        return f"torch._VF.{function}"
    if kind == "Aten":
        return f"torch.ops.aten.{function}"
    return f"torch.{function}" if hasattr(torch, function) else f"torch.linalg.{function}"
