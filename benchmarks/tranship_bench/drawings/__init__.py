"""Drawings of result lines."""
