"""The Recognise panel: self-speculative speech recognition."""
