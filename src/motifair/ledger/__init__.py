"""What was paid and why: entries in a hash chain, their store, and their verification."""
