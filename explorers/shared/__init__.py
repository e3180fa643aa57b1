"""What gradio lacks: figures and token strips, built from numbers and fixed words alone."""
