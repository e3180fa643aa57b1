"""Spoof detectors on speech tokens: where a sequence of codes stops sounding like speech."""
