"""Copies and conversions inside one process."""
