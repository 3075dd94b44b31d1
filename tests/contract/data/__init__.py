"""Strings, hashes, and keys of any type: expiry, copies, SCAN, DUMP."""
