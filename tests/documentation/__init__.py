"""The project's documentation: the site is complete, its generated tables are current, and its examples run."""
