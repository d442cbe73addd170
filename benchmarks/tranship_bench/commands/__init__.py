"""The commands that this package adds to the command line ``tranship``."""
