"""Analyses of a finished take: other settings, swapped tokens, single tokens."""
