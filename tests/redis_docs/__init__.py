"""The examples of the three documents that show a command and its reply, restated as data and run on every server.

scenes           what a scene is, and how its steps are compared
introduction     the introduction to Redis streams
documentation    the streams page of Redis's documentation
specification    the draft of consumer groups, in the commands that came of it
left_out         what the documents show and no server does, with the reason

Where a document lets the server make an ID, the ID that it shows is given explicitly. Where it speaks of idle times,
the entries are made that old first, with XCLAIM's IDLE.
"""
