"""The spoof detectors."""
