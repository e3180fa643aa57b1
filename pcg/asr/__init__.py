"""Speech -> text: CTC drafts, verified and continued by a language model. It knows nothing of the voice or of training."""
