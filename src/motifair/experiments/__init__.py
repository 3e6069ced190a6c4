"""Runs over splits with their baselines, and what they add up to."""
