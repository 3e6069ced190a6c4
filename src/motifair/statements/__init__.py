"""Payments and their reasons: ledger entries, accounts, verification, statements.

Plain Python without a database.
"""
