"""Halo exchanges."""
