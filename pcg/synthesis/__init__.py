"""A voice and what makes it speak."""
