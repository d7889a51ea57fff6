"""What shapes a training besides its code: collected once, at its first micro-steps."""
