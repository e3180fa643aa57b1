"""Acceptance rules: pure functions of tokens, probabilities and coins, one file a rule."""
