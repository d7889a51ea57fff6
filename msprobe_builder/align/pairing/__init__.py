"""Making pairs from the evidence, from modules that are known surely to all the rest."""
