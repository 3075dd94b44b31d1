"""Random sequences of commands, run on the engine's core and on a real redis-server, compared reply by reply.

vocabulary  a few keys, groups, consumers, IDs and scores, so that commands meet
streams, sorted_sets, values, scripts
            commands by the type of their key
grammar     makes sequences of them; some words are noise
sides       the two sides: the core or an engine in a process, and redis-server
machine     runs a sequence on both sides and compares
blocking    the same with a third client that waits
shrink      makes a failing sequence short
exclusions  differences of the present release that are not compared, each with its reason
__main__    python -m tests.differential --commands 200000
"""
