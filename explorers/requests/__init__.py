"""Requests before a handler sees them: their values, their sessions, their place in the queue, and how the page is served."""
