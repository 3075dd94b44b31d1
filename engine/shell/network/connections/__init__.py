"""One client's socket each: bytes to commands, replies to bytes, and what a client may cost.

It may import the core's sessions and replies, the settings and the codec of the wire. It never knows what runs a
command, nor what comes of it for others: whoever runs commands is handed in.
"""
