"""The first tab: one text by every decoder."""
