"""Commands on streams without groups: adding, reading, trimming, deleting, IDs, what transactions and events see."""
