"""Copies between processes, and the processes that they need."""
