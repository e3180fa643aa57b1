"""The Experiments panel and the static report."""
