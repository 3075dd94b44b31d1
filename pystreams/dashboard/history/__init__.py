"""History: numbers of the last hour in memory and of a day on disk, and the audit log. Servers are not used here."""
