"""Connections, their rights, and reports of a server: HELLO, CLIENT, ACL, blocking, transactions, MONITOR."""
