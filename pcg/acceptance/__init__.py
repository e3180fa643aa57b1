"""Acceptance rules: pure functions of tokens, laws and coins, one file a rule."""
