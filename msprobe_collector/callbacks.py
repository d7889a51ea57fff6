"""Callbacks for those who hand callbacks to a library that trains.

Both follow the training from its first step to its end as ``record_training`` does, whose arguments
they take. A loop of one's own, with accelerate for example, calls ``record_training`` itself.
"""

from __future__ import annotations

from typing import Any

from msprobe_collector.run.follow import Follower, record_training


def trainer_callback(**options: Any) -> Any:
    """For ``transformers.Trainer(callbacks=[…])``, and the trainers of TRL."""
    from transformers import TrainerCallback

    class RecordTraining(TrainerCallback):  # type: ignore[misc]
        follower: Follower | None = None

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            self.follower = record_training(**options)

        def on_train_end(self, *_: Any, **__: Any) -> None:
            if self.follower is not None:
                self.follower.stop()

    return RecordTraining()


def lightning_callback(**options: Any) -> Any:
    """For ``lightning.Trainer(callbacks=[…])``."""
    from lightning import Callback

    class RecordTraining(Callback):  # type: ignore[misc]
        follower: Follower | None = None

        def setup(self, *_: Any, stage: str = "", **__: Any) -> None:
            if stage == "fit" and self.follower is None:
                self.follower = record_training(**options)

        def teardown(self, *_: Any, **__: Any) -> None:
            if self.follower is not None:
                self.follower.stop()
                self.follower = None

    return RecordTraining()
