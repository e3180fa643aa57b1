"""Drafts: layers of a target, or a feature draft."""
