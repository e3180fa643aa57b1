"""Results of experiments: sums, tables, claims."""
