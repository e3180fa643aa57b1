"""What a take would have been otherwise: other settings, swapped tokens, single tokens."""
