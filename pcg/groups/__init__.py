"""Which speech tokens may stand for which: neighbours in embedding space, and the Acoustic Similarity Groups they define."""
