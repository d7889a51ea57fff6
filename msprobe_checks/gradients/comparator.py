"""The interface of the documents."""

from __future__ import annotations

from pathlib import Path

from msprobe_builder.command.output import print_lines
from msprobe_checks.gradients.similarity import compare_gradients
from msprobe_checks.gradients.write import summary_lines, write_all


class GradComparator:
    """Compares records of gradients; there is no state, so nothing has to be created."""

    @staticmethod
    def compare_distributed(
        path1: str | Path, path2: str | Path, output_dir: str | Path, plots: bool = True
    ) -> None:
        """Compare all common ranks and steps, write the result and print where the runs part.

        Raises UsageError or BuildError with one sentence when that is impossible.
        """
        comparison = compare_gradients(Path(path1), Path(path2))
        write_all(comparison, Path(output_dir), plots)
        print_lines(summary_lines(comparison))
