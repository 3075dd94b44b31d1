"""New York's departures of 2013, for the job `flight_delays`: the data, the second opinion by pandas, the table.

Needs `pystreams[demo]`. Knows no stream; of Spark only the results of a run.
"""
