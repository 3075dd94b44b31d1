"""An engine in a process that is killed while it writes; its restored data is compared with a model.

``make test-long PYTEST_ARGS=tests/crash`` kills the engine three hundred times.
"""
