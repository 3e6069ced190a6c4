"""Motifs: rings and bonds of graphs, the vocabularies of agents, and motif prototypes."""
