"""Plans: what they cost to make, and what they predict."""
