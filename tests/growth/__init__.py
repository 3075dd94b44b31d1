"""Growth: the cost of a command is proportional to the size of its arguments.

cases        commands with one argument repeated n times, derived from the syntax in the command table
test_growth  processor time of every case at n and 4n, on the core in this process
"""
