"""``--open``: TensorBoard on what was built, until it is stopped."""

from __future__ import annotations

import threading
from pathlib import Path

from msprobe_builder.base.errors import BuildError
from msprobe_builder.command.output import print_lines
from msprobe_builder.export.wrapped import line
from msprobe_builder.facts.fact import fact


def serve(folder: Path) -> None:
    """Serve the files in ``folder`` and print the address; returns on Ctrl-C or a termination.

    Raises BuildError where no server can be started.
    """
    try:
        from tensorboard import program

        server = program.TensorBoard()
        # Fast loading is for event files, of which there are none here.
        server.configure(argv=["tensorboard", "--logdir", str(folder), "--load_fast", "false"])
        try:
            address = server.launch()
        except program.TensorBoardServerException as error:
            raise BuildError(f"TensorBoard cannot be started: {error.msg}.") from error
        print_lines(
            [
                line(fact("label.open"), f"{address}#graph_ascend"),
                line("", fact("summary.stop")),
            ]
        )
        threading.Event().wait()
    except KeyboardInterrupt:
        return
