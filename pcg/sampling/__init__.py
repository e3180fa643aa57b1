"""Samplers: what a model's logits become before a token is drawn, and what they remember of the tokens before."""
