"""Trained models in files, with a card, for motifair and for plain PyG."""

from motifair.export.model import Exported, load_model, save_model
from motifair.export.predict import predict

__all__ = ["Exported", "load_model", "predict", "save_model"]
