"""Two records of gradients over many steps."""
