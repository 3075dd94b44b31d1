"""The project's own documentation: the site is built and whole, its tables are today's, its examples run."""
