"""The panels of the page, one folder each, thin over `pcg`: `layout.py` holds gradio, `actions.py` does not."""
