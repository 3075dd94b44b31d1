"""Fixtures for tests of the connector without Spark."""

from tests.harness.sites import client, connection, site

__all__ = ["client", "connection", "site"]
