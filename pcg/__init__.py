"""The engine of PCG Lab: decoders, acceptance rules, groups, codecs and metrics. It knows neither gradio nor plotly."""
