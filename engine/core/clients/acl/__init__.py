"""Permissions of users: the language of ACL rules, and the check of a command against them.

This package may import the command table and lower layers. It does not depend on connections or logins.
"""
