"""Connections, permissions, and reports of a server: HELLO, CLIENT, ACL, blocking, transactions, MONITOR."""
