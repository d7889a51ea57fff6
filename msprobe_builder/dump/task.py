"""What kind of dump a directory holds, and which two can be compared."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from msprobe_builder.base.errors import BuildError

if TYPE_CHECKING:  # who asks for the task of a file needs neither a reader of dumps nor numpy
    from msprobe_builder.base.texts import Texts
    from msprobe_builder.dump.read import Dump


class Task(str, Enum):
    """What was dumped of each tensor; stored in ``meta.task``."""

    STATISTICS = "statistics"
    MD5 = "md5"
    TENSOR = "tensor"
    STRUCTURE = "structure"


_IN_WORDS = {
    Task.STATISTICS: "statistics",
    Task.MD5: "statistics with md5 checksums",
    Task.TENSOR: "real data (task tensor)",
    Task.STRUCTURE: "structure without data",
}


def task_of(dump: Dump) -> Task:
    """The task of a dump: that of dump.json, md5 when its statistics carry checksums."""
    try:
        task = Task(dump.task)
    except ValueError as error:
        raise BuildError(
            f"{dump.directory / 'dump.json'} is of task '{dump.task}'; "
            "dump again with task statistics, tensor or structure."
        ) from error
    return Task.MD5 if task is Task.STATISTICS and dump.parameters.md5 else task


def common_task(npu: Dump, bench: Dump) -> Task:
    """The task of both dumps; BuildError when they differ."""
    of_npu, of_bench = task_of(npu), task_of(bench)
    if of_npu is not of_bench:
        raise BuildError(
            f"{npu.directory} holds {_IN_WORDS[of_npu]} and {bench.directory} holds "
            f"{_IN_WORDS[of_bench]}; compare dumps of the same kind."
        )
    return of_npu


def framework_of(dump: Dump, texts: Texts) -> str | None:
    """The framework in dump.json, else guessed from the types of the tensors."""
    if dump.framework is not None:
        return dump.framework.lower()
    for type_id in dump.parameters.types:
        if type_id >= 0:
            package = texts.values[type_id].partition(".")[0]
            if package in ("mindspore", "torch"):
                return "mindspore" if package == "mindspore" else "pytorch"
    return None


def require_same_framework(npu: Dump, bench: Dump, texts: Texts) -> None:
    """BuildError when one side is of MindSpore and the other is not: no name would be equal."""
    of_npu, of_bench = framework_of(npu, texts), framework_of(bench, texts)
    if of_npu is None or of_bench is None:
        return
    if (of_npu == "mindspore") != (of_bench == "mindspore"):
        raise BuildError(
            f"{npu.directory} is a dump of {of_npu} and {bench.directory} one of {of_bench}; "
            "compare them with --layer_mapping."
        )
