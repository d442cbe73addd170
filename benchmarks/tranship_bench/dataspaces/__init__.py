"""DataSpaces-GPU's evaluation (Euro-Par 2023, section 5), simulated on Perlmutter's nodes.

Each benchmark is one figure. Real plans and the scheduler run on virtual time, objects lie where
the service's own placement puts them, and requests to servers take simulated time. Each result line
says so: ``"simulated": true``. ``checked`` means that every simulated task ended and that the bytes
add up.
"""
