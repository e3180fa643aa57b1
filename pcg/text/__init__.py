"""What a model reads before it speaks: normalised text, phonemes, reference speech, one prompt format a family."""
