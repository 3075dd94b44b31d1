"""A server as a replica: the link to its master, all data that come over it, and what the master does from there on.

It may import the core, durability (the formats of files, running commands of a log), the history, the settings and the
observation room. It never knows who follows this server, nor how clients are served.
"""
