"""The folder that the Hub serves to transformers' `generate(custom_generate=...)`."""
