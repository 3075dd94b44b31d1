"""Rows as commands: conversion of record batches to XADDs for each stream, their digests, and the XTRIMs that follow.

May import columns, the codec and config. Does not depend on transactions or on the records on servers.
"""
