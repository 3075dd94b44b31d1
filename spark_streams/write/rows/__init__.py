"""Rows as commands: record batches become XADDs for each stream, their digests, and the XTRIMs behind them.

May import columns, the codec and config. Knows nothing of transactions, nor of what servers remember of rows.
"""
