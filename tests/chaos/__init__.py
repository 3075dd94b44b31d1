"""The kill test: a job copies one stream to another while servers, workers, drivers and connections are killed at
random moments.
"""
