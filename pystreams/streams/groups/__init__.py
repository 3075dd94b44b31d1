"""Consumer groups: where they stand, how far behind they are and why, what is pending, and changes of these.

It may import how a server is asked and which streams there are. It never knows how its answers are shown.
"""
