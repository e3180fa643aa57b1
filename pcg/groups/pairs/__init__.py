"""Which tokens sound alike: similar pairs, found, sorted and kept."""
