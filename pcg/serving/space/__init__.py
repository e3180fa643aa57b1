"""A Hugging Face Space from this repository: what it needs in one folder, checked before anything is uploaded."""
