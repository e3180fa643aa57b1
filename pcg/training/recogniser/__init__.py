"""The embedded recogniser."""
