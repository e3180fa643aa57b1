"""What visitors of the page wait for, what it costs, and who can use it: measured from outside."""
