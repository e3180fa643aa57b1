"""The Compare panel: one text by every decoder."""
