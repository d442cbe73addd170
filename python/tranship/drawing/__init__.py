"""Pictures of machines and plans."""
