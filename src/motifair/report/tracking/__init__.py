"""Experiment tracking: callbacks that log a run to TensorBoard or MLflow."""
