"""Random sequences of commands, run on the engine's core and on a real redis-server, compared reply by reply.

vocabulary  a few keys, groups, consumers, IDs and times, so that commands meet
streams, values
            commands by the type of their key
grammar     makes sequences of commands, some with invalid words
sides       the two sides: the core or an engine in a process, and redis-server
machine     runs a sequence on both sides and compares
blocking    does the same with a third client that waits
shrink      makes a failing sequence short
exclusions  known differences of Redis releases, which are not compared, each with its reason
__main__    python -m tests.differential --commands 200000
"""
