"""Recipes that make the embedded voice from nothing. They import the engine; the engine never imports them."""
