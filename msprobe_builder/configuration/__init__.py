"""What shapes a training: packs of two runs, read and compared."""
