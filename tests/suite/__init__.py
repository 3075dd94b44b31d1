"""Running the suite: selection and order of tests, external programs, and waiting. It is independent of tests'
subjects.

order          the order of tests in each process of a run
long           the mark of tests that only ``make test-long`` runs
tools          external programs, and what happens if one is missing
waiting        waiting for a condition with a deadline, instead of sleeping
spark_session  the Spark session of a run
jvm            a JVM that starts quickly, and the Python processes that it starts
"""
