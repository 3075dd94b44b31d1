"""What the process knows of itself: processor time, traffic, and the log lines for people.

It may import the core and housekeeping. It never knows a connection, nor whom it reports to.
"""
