"""A whole pass of a small Llama in one compiled call."""
