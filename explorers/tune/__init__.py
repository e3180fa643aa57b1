"""The Tune panel: one take at a time, with every setting beside it."""
