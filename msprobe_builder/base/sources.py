"""Which code this is: two machines, or two moments, may run other code of the same version."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from pathlib import Path


@lru_cache(maxsize=1)
def sources_digest() -> str:
    """A digest of all source files of the package ``msprobe_builder``."""
    root = Path(__file__).resolve().parent.parent
    digest = blake2b(digest_size=8)
    for path in sorted(
        path for ending in ("py", "sql", "tsv") for path in root.rglob(f"*.{ending}")
    ):
        digest.update(f"{path.relative_to(root).as_posix()}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
