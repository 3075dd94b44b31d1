"""Growth: the cost of a command is proportional to the size of its arguments.

cases        commands with one argument repeated n times, derived from the syntax in the command table
measuring    processor time of a case, on the core in this process or on a server
test_growth  every case at n and 4n
__main__     the cases on the engine as a process, next to redis-server: ``python -m tests.growth``
"""
