"""What was said: a Take, how it is stored, and how it is said again."""
