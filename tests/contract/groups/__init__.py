"""Consumer groups: reading, pending entries, claiming, acknowledging and lag."""
