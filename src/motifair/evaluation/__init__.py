"""How good and how fair: accuracy, fairness with its uncertainty, intervals."""
