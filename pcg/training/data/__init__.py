"""Sentences, corpora, alignments and batches."""
