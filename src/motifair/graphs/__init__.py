"""Where graphs come from and who holds them."""
