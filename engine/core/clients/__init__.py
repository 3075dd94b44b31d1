"""Clients as the core knows them: sessions and what they wait for, users, channels, monitors, how long commands took.

It may import the command table, the keyspace and what is below them. It never knows a socket, nor what a command does.
"""
