"""Two checkpoints of one model, whatever wrote them and however they are split."""
