"""How the suite runs: which tests, in which order, with which programs, and how they wait. It knows no test's subject.

order          the order of tests in each process of a run
long           the mark of tests that only ``make test-long`` runs
tools          programs from outside Python, and what happens where one is missing
waiting        waiting on a condition with a deadline, instead of sleeping
spark_session  the Spark session of a run
jvm            a JVM that starts quickly, and the Python processes that it starts
"""
