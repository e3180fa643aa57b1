"""Decoding loops and what they run on. They know tokens and laws, not audio."""
