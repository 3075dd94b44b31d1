"""Programs written for Redis: each does a small job on redis-server and on the engine (``make test-programs``).

``scripts`` are the programs in Python, ``node`` those of npm; they do not use the test code. ``running`` runs one with
two workers and kills a worker in the middle. The two called ``libraries`` need no worker: they use many libraries a
little.
"""
