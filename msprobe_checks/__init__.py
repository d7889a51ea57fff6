"""Checks beside the comparison of dumps: configuration, checkpoints, gradients, monitor."""
