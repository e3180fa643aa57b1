"""Self-speculative speech recognition, measured as its paper does (Saon et al., arXiv:2603.11243)."""
