"""Benches of single parts: codec, groups, rules, recogniser, detectors."""
