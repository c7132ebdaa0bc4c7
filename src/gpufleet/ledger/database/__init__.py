"""Months in PostgreSQL: one table with a partition for each open month, sealed months as their Parquet.

A database, or a schema of one, has the months of one cluster. Equal observations make the same sealed months
as in files, byte for byte.
"""
