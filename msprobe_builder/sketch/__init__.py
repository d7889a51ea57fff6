"""Sketches: signed sums of a tensor's elements, which tell how far two tensors are apart."""
