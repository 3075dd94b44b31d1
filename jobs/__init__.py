"""Pipelines for `spark-submit`: each module with a `main` is a job, the others serve one."""
