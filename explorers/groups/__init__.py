"""The Groups panel: the map of the speech tokens and their groups."""
