"""The staging service."""
