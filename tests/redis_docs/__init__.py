"""The examples of the three documents that show a command and its reply, as data, run on every server.

scenes           a scene, and how its steps are compared
introduction     the introduction to Redis streams
documentation    the streams page of Redis's documentation
specification    the draft of consumer groups, in the commands that resulted from it
left_out         examples that no server follows, with the reason

If a document's ID is generated, the ID that it shows is given explicitly. If it mentions idle times, the entries are
made that old first, with XCLAIM's IDLE.
"""
