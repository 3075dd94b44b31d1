"""History: numbers of the last hour in memory and of a day on disk, and the audit log. Nothing here uses a server."""
