"""What was paid and why: entries in a hash chain, accounts, verification, statements.

Plain Python without a database.
"""
