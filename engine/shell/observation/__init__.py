"""Observation: processor time, traffic, latency and log lines of the process.

It may import the core, the settings and housekeeping. It does not depend on connections, or on where its reports go.
"""
