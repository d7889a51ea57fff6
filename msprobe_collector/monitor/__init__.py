"""Key ``monitor``: numbers of every step of a training, cheap enough to leave on."""
