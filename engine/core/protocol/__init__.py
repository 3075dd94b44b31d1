"""The protocol's words: kinds of replies, a cursor over a command's arguments, stream IDs as numbers.

Imports only the texts. Knows no command, no data and no client.
"""
