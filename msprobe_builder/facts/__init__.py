"""What is said of results: codes with arguments, and a catalogue of wordings for each language."""
