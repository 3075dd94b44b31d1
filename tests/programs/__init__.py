"""Programs about streams: each does a small job on redis-server and on the engine (`make test-programs`).

Each program is run as `work URL NAME`, twice, and as `publish URL`, with the number of jobs in the environment variable
JOBS. It does not use the test code, except that it adds a result `square:<number>:<square>` to the stream `out` for
each job.
"""
