"""The Compare panel: one text, said by every decoder."""
