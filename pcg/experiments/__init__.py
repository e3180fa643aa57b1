"""Experiments: declared grids of units, a store that resumes, runners, and what their results say."""
