"""Programs written for Redis: each does a small job on redis-server and on the engine (``make test-programs``).

``scripts`` are the programs in Python, ``node`` those of npm; they do not use the test code. ``running`` runs one with
two workers and kills a worker in the middle. The two programs named ``libraries`` need no worker: they use a little of
many libraries.
"""
