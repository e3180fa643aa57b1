"""The Listening test panel."""
