"""The benchmarks of Tranship: `benches` runs them by name, `figures` draws what they wrote.

The commands ``tranship bench`` and ``tranship figures`` are in `commands`; the package ``tranship``
finds them through the entry points of the group ``tranship.commands``.
"""
