"""The Settings panel: takes and settings that travel."""
