"""Fixtures for tests of the client."""

from tests.harness.sites import client, connection, site

__all__ = ["client", "connection", "site"]
