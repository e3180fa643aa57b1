"""Benchmarks: the ceiling first, then the measurement, in ratios of one run. The engine knows nothing of them."""
