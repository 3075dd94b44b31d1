"""Types other than streams (strings, hashes, lists, sets, sorted sets), and keys of any type: expiry, copies, SORT."""
