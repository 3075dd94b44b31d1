"""Connections, their rights, and what a server tells of itself: HELLO, CLIENT, ACL, blocking, transactions, MONITOR."""
