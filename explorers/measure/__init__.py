"""What the page promises, measured in a real browser."""
