"""Graph networks for stacks of agents; each agent's parameters are one flat row."""

from motifair.models.base import Model, Noise, StackedModel
from motifair.models.gin import GIN
from motifair.models.gine import GINE
from motifair.models.layout import Layout
from motifair.models.sage import SAGE
from motifair.models.star import Star

__all__ = ["GIN", "GINE", "SAGE", "Layout", "Model", "Noise", "StackedModel", "Star"]
