"""Columns: conversion of a field's bytes to values of Spark, and back.

Owns the schemas of reads, text and JSON as columns in both directions, and inferred types. May import the
codec's pages and the configuration. Does not depend on servers, connections or offsets.
"""
