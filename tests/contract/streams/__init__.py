"""Commands on streams without groups: adding, reading, trimming, deleting, IDs, transactions and events."""
