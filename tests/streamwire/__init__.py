"""Tests of `streamwire`: each module by itself, without servers or Spark."""
