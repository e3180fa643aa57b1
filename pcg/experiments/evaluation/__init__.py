"""The figures that a voice must hold, by method."""
