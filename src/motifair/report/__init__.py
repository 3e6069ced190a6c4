"""Tables, figures, HTML reports, statements and experiment tracking of a run."""
