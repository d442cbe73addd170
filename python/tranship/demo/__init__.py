"""`tranship demo`: a Sedov blast wave on several processes, coupled to analyses by the engine."""
