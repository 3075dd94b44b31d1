"""New York's departures of 2013, for the job `flight_delays`: the data, a check by pandas, and the table.

Needs `pystreams[demo]`. Does not depend on streams. Of Spark it uses only the results of a run.
"""
