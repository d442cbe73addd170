"""CERN's experiment with remote GPUs."""
