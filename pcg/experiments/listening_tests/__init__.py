"""Blind listening tests as data: what is heard in which order, how loud, what votes are valid, and what they show."""
