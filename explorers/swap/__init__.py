"""The Swap panel: the intra-group swap stress test."""
