"""The Spoof panel: samplers, detectors and beam search."""
