"""The states of what runs in the background: one file for each machine, with a drawing of it and its table.

It imports nothing of the engine. It never knows files, threads or the clock: the owner of a machine does what is to be
done, and tells the machine what has happened.
"""
