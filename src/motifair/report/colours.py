"""The colours, dashes and markers of every picture; nothing differs by colour alone."""

from __future__ import annotations

from collections.abc import Mapping

# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000")
BLUE, ORANGE, GREEN, RED, PINK, SKY, YELLOW, BLACK = COLOURS

# By name, for charts that are drawn on light paper and on dark screens. Yellow is left out: on
# white paper it is hard to see. On a dark ground blue, green and red are a little lighter.
LIGHT: Mapping[str, str] = {
    "blue": BLUE, "red": RED, "green": GREEN, "orange": ORANGE, "pink": PINK, "sky": SKY,
    "ink": "#1c2430", "faint": "#8a94a3",
}  # fmt: skip
DARK: Mapping[str, str] = {
    "blue": "#4aa3e0", "red": "#f0794a", "green": "#2fc79a", "orange": "#f0b440",
    "pink": "#dd96bb", "sky": "#8fd0f5", "ink": "#e7ebf0", "faint": "#77828f",
}  # fmt: skip
CURVES = ("blue", "red", "green", "orange", "pink", "sky", "ink")

# Names as Plotly has them, with what matplotlib calls the same.
DASHES = {"solid": "-", "dash": "--", "dashdot": "-.", "dot": ":"}
MARKERS = {
    "circle": "o", "square": "s", "triangle-up": "^", "diamond": "D", "triangle-down": "v",
    "cross": "P", "x": "X",
}  # fmt: skip
# Roles and quality tiers, by the name of their colour and as it is on paper.
ROLES = {
    "good": "blue", "late": "green", "noisy": "orange", "harmful": "red",
    "high": "blue", "medium": "orange", "low": "red",
}  # fmt: skip
ROLE_COLOURS = {role: LIGHT[name] for role, name in ROLES.items()}
