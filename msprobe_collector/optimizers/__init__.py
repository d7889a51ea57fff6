"""What calls of optimizers have to do with the parameters of a model."""
