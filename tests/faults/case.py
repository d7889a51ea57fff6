"""One pair of runs: what is planted in which model, and in what way both are recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace

SAME, NOISE, HALF = "same", "noise", "bf16"
AUTOCAST, FP16 = "autocast", "fp16"  # mixed precision against float32
# One kernel where the other side makes several calls.
KERNELS, REFERENCE_KERNELS = "kernels", "reference kernels"
RECOMPUTED, REFERENCE_RECOMPUTED = "recomputed", "reference recomputed"
PURE = "autocast against bf16"
# Mixed precision, or half precision, on both sides, and kernels that round otherwise.
FP16_TWICE, HALF_TWICE = "fp16 twice", "bf16 twice"
# Products, or convolutions alone, as matrix units make them in single precision.
TF32, TF32_CONVOLUTIONS = "tf32", "tf32 convolutions"
ONE_BATCH = "one batch"  # where the reference makes two micro-steps
RESPELLED = "respelled"  # other names and wrappers around the layers


@dataclass(frozen=True)
class Case:
    """One pair of runs; without ``fault`` it is a control."""

    architecture: str
    fault: str | None
    layer: int | None = None
    kind: str = SAME
    direction: str = "forward"
    seed: int = 1
    size: tuple[tuple[str, int], ...] = ()
    level: str = "mix"
    summary: str = "statistics"
    task: str = "statistics"
    micro_steps: int = 2

    @property
    def is_control(self) -> bool:
        """Whether nothing is wrong: another formula gives the same."""
        return self.fault is None or self.fault.startswith("equal_")

    @property
    def name(self) -> str:
        layer = "" if self.layer is None else f"@{self.layer}"
        size = "".join(f",{key}={value}" for key, value in self.size)
        way = (self.level, self.summary, self.task)
        usual = ("mix", "statistics", "statistics")
        other = "".join(f" {one}" for one, most in zip(way, usual, strict=True) if one != most)
        other += "" if self.micro_steps == 2 else f" {self.micro_steps} micro-steps"
        fault = f"{self.fault or 'control'}{layer}"
        return f"{self.architecture}{size} {fault} {self.kind} #{self.seed}{other}"


def of_all_kinds(faults: list[Case], names: tuple[str, ...], seed: int) -> list[Case]:
    """Faults and two controls of each model, each on the same device, with noise, in bfloat16."""
    controls = [Case(name, None, seed=seed + more) for name in names for more in (0, 1)]
    return [replace(case, kind=kind) for kind in (SAME, NOISE, HALF) for case in faults + controls]
