"""Task ``grad_probe``: the gradients of parameters at every call of the optimizer."""
