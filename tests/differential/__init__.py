"""Random sequences of commands, run on the engine's core and on a real redis-server, compared reply by reply.

vocabulary  a few keys, groups, consumers, IDs and scores, so that commands meet
streams, sorted_sets, values, scripts
            the commands, by what they act on
grammar     makes sequences of them; some words are noise
sides       the two sides: the core or an engine in a process, and redis-server
machine     runs a sequence on both sides and compares
blocking    the same with a third client that waits
shrink      makes a failing sequence short
exclusions  what is not compared with the release at hand, each with its reason
__main__    python -m tests.differential --commands 200000
"""
