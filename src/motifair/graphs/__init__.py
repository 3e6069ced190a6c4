"""Graph data: reading, generating, partitioning and perturbing graphs, and batching them."""
