"""Spark on a cluster of real processes: `.venv/bin/python -m pytest -sv tests/cluster/*_cases.py`.

It takes minutes, so `make test` does not run it.
"""
