"""Language models as they decode: weights, Llama, feature draft, the compiled CPU kernel."""
