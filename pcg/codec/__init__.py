"""Codecs: tokens <-> audio behind one interface. They know nothing of decoding."""
