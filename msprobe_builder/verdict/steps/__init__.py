"""What optimizers did between recorded steps."""
