"""Inference engines: one contract, vLLM and plain transformers behind it."""
