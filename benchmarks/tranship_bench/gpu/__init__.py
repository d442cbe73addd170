"""Copies inside GPUs, and to and from them."""
