"""What takes the certainty from an accusation, or shows that nobody is to blame."""
