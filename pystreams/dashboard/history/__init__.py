"""The audit log and its directory."""
