"""New York's departures of 2013, for the job `flight_delays`: the data, a check by pandas, and the table.

This package needs the extra `demo`. It depends neither on streams nor on Spark: the check compares the results of
a run.
"""
