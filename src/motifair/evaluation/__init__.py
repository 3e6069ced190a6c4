"""Evaluation: accuracy, fairness and its uncertainty, confidence intervals and tests."""
