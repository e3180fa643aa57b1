"""The network of the embedded recogniser: features, encoder, projector, subwords."""
