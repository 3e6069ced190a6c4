"""Export all models of a finished run."""

from __future__ import annotations

from pathlib import Path

from motifair.experiments.final_states import finished
from motifair.experiments.plan import read_plan
from motifair.export.model import save_model
from motifair.export.trained import SERVER, TrainedSplit


def export_run(run_dir: str | Path, out: str | Path) -> list[Path]:
    """Write every agent's model of a finished run, and the server's if the method has one.

    Arguments:
        run_dir: the out folder of the run.
        out: folder for the models: those of split k are in `out/split-00k/agents/NAME` and
            `out/split-00k/server`.

    Returns:
        The folder of each model, for `load_model`.
    """
    plan = read_plan(Path(run_dir))
    folders = []
    for number in range(plan.config.splits):
        split = TrainedSplit(plan, number, *finished(plan, Path(run_dir), number))
        for model in split.models():
            place = SERVER if model.agent == SERVER else f"agents/{model.agent}"
            folders.append(Path(out) / f"split-{number:03d}" / place)
            own, card = split.own(model.agent), split.card(model)
            save_model(folders[-1], model.weights, own.model, own.features, card, model.own)
    return folders
