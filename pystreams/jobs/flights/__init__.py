"""New York's departures of 2013, for the job `flight_delays`: the data, a check by pandas, and the table.

Needs `pystreams[demo]`. Depends on no stream, and of Spark only on the results of a run.
"""
