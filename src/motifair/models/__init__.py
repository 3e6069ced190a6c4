"""Batched graph networks over one flat parameter buffer."""

from motifair.models.gin import GIN
from motifair.models.layout import Layout

__all__ = ["GIN", "Layout"]
