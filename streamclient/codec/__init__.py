"""The codec: conversion of a reply's bytes to a page of Arrow columns, and of Arrow columns to XADD commands.

Owns the vectorised implementations, and the slow reference implementations (`*_reference`) that define their results.
Imports nothing of the connector. Does not depend on sockets, Spark, options, or the meaning of a field's text.
"""
