"""The paper's tables and figures, each a study that can be stopped and goes on."""
