"""A dump that no collector of ours wrote: NumPy layers, recorded by hand with their sketches.

    python examples/write_dump.py out/numpy

docs/design/format.md describes every file. Only the sums of the sketches are taken from here.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from msprobe_builder.sketch.definition import sketch_of

INPUT, OUTPUT, PARAMETERS = 0, 1, 2
Array = npt.NDArray[np.float32]


class Writer:
    """One step and rank: records in the order of execution, and the sketches of their tensors."""

    def __init__(self) -> None:
        self.records: dict[str, Any] = {}
        self.parents: dict[str, str | None] = {}
        self.rows: list[bytes] = []
        self.places: list[bytes] = []

    def add(self, name: str, parent: str | None, **tensors: dict[str, Array]) -> None:
        """A forward call with its ``inputs``, ``outputs`` and ``parameters`` by name."""
        described = {
            section: {
                key: self.tensor(section, position, array)
                for position, (key, array) in enumerate(given.items())
            }
            for section, given in tensors.items()
        }
        self.records[name] = {
            "input_args": list(described["inputs"].values()),
            "input_kwargs": {},
            "output": list(described["outputs"].values()),
            "parameters": described.get("parameters", {}),
        }
        self.parents[name] = parent

    def tensor(self, section: str, position: int, array: Array) -> dict[str, Any]:
        """What dump.json says of a tensor; its row and its place are kept for sketch.bin."""
        number = {"inputs": INPUT, "outputs": OUTPUT, "parameters": PARAMETERS}[section]
        sketch = sketch_of(array)
        row = sketch.numbers.astype("<f4").tobytes() + struct.pack("<2I", *sketch[1:])
        if row not in self.rows:  # one serves all places that show the tensor
            self.rows.append(row)
        place = (len(self.records), number, position, self.rows.index(row))
        self.places.append(struct.pack("<I2HI", *place))
        wide = array.astype(np.float64)
        return {
            "type": "numpy.ndarray", "dtype": str(array.dtype), "shape": list(array.shape),
            "Max": float(wide.max()), "Min": float(wide.min()), "Mean": float(wide.mean()),
            "Norm": float(np.linalg.norm(wide)), "requires_grad": False,
        }  # fmt: skip

    def write(self, folder: Path) -> None:
        """All files of the step."""
        folder.mkdir(parents=True)
        header = {
            "task": "statistics",
            "level": "L0",
            "framework": "pytorch",
            "dump_data_dir": None,
        }
        (folder / "dump.json").write_text(json.dumps(header | {"data": self.records}))
        (folder / "construct.json").write_text(json.dumps(self.parents))
        (folder / "stack.json").write_text("{}")
        blocks = block(b"ROWS", self.rows) + block(b"PLAC", self.places)
        head = struct.pack("<8s4I12x", b"MSSKETCH", 1, 264, 64, 12)
        (folder / "sketch.bin").write_bytes(checked(head) + blocks)


def checked(head: bytes) -> bytes:
    return head + struct.pack("<I", zlib.crc32(head))


def block(kind: bytes, entries: list[bytes]) -> bytes:
    content = b"".join(entries)
    head = struct.pack("<4s3I4x", kind, len(entries), 0, zlib.crc32(content))
    return checked(head) + content + b"\0" * (-len(content) % 8)


def run(writer: Writer, seed: int) -> None:
    """Two layers of a network on one batch."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((64, 32)).astype(np.float32)
    for number in range(2):
        weight = rng.standard_normal((32, 32)).astype(np.float32) / 6
        result = np.maximum(values @ weight, 0)
        writer.add(
            f"Module.layers.{number}.Dense.forward.0", None,
            inputs={"values": values}, outputs={"result": result}, parameters={"weight": weight},
        )  # fmt: skip
        values = result


if __name__ == "__main__":
    writer = Writer()
    run(writer, seed=0)
    writer.write(Path(sys.argv[1]) / "step0" / "rank")
