"""Client connections: bytes to commands, replies to bytes, and the limits of each client.

It may import the core's sessions and replies, the settings, the wire codec and `engine.shell.observation`. It does not
depend on how commands run or what their effects are: a runner is passed in.
"""
