"""Consumer groups: reading, pending entries, claiming, acknowledging, lag."""
