"""Who says how good it was: words understood, speaker kept, sound clean. Judges hear samples; none knows what spoke them."""
