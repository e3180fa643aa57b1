"""The take in hand, above every tab, and the takes before it."""
