"""Isometry's evaluation (ICS'18, section 6), simulated on profiles of the paper's clusters.

Each benchmark is one figure or table. Real plans, descriptors, workers and priorities run on
virtual time; the channels are the profile's throughput functions. Result lines say so:
``"simulated": true``, and their ``machine`` is the profile. ``checked`` means that every simulated
transfer ended and that the bytes add up. The paper's measurements are in
``expected/NAME.json``; a line with a number to compare has ``expected``, and ``within``
says whether the two agree.
"""
