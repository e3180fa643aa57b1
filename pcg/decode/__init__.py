"""Decoding loops and what they run on. They know tokens and probabilities, not audio."""
