"""The embedded voice: codec, target, model card, publishing."""
