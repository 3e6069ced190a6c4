"""`motifair predict` and `motifair export`: use a trained model, and export the models of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from motifair.cli.shared import Json, Smiles, choose_columns, print_json


def predict(
    model: Annotated[Path, typer.Option(help="Folder with model.safetensors and card.json.")],
    graphs: Annotated[
        Path,
        typer.Option(
            help="TU folder or zip, CSV with SMILES or edges, PyG .pt, NetworkX .graphml, .gml or "
            "node-link .json, or a folder of these."
        ),
    ],
    smiles: Smiles = None,
    module: Annotated[
        str | None,
        typer.Option(help="The module of your own that was trained, package.module:name."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File for the predictions, .csv or .json.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Predict the class of each graph, with the probability of each class.

    Of binary tasks the probability of each, of a regression the numbers.
    """
    from motifair.errors import MotifairError
    from motifair.export import load_model
    from motifair.export import predict as classify
    from motifair.files import check_target, write_atomic
    from motifair.graphs.read import read_graphs

    if out is not None and out.suffix not in (".csv", ".json"):
        raise MotifairError(f"--out {out} must end in .csv or .json.")
    if out is not None:
        check_target(out)
    exported = load_model(model, module)
    found = read_graphs(graphs, choose_columns(graphs, smiles, None))
    if found.ignored:
        typer.echo(f"motifair: Ignoring {', '.join(found.ignored)}.", err=True)
    predictions = classify(exported, found)
    if out is not None:
        text = predictions.to_csv(index=False) if out.suffix == ".csv" else _json(predictions)
        write_atomic(out, text)
    if as_json:
        typer.echo(_json(predictions), nl=False)
    elif out is not None:
        Console().print(f"Predictions in {out}", highlight=False, soft_wrap=True)
    else:
        _show(predictions, f"{exported.card['method']}, {exported.card['agent']}")


def export(
    folder: Annotated[Path, typer.Argument(help="The out folder of a finished run.")],
    out: Annotated[Path, typer.Option(help="Folder for the models.")],
    as_json: Json = False,
) -> None:
    """Write the models of a finished run: every agent's, and the server's."""
    from motifair.export.runs import export_run

    folders = [str(path) for path in export_run(folder, out)]
    print_json(folders) if as_json else typer.echo("\n".join(folders))


def _json(predictions: Any) -> str:
    """Return predictions as a list with one object for each graph."""
    rows = []
    for row in predictions.to_dict("records"):
        about = {name: int(row.pop(name)) for name in ("graph", "label") if name in row}
        prefix = "probability "
        kind = "probabilities" if all(str(name).startswith(prefix) for name in row) else "values"
        rows.append({**about, kind: {str(n).removeprefix(prefix): v for n, v in row.items()}})
    return json.dumps(rows, indent=2) + "\n"


def _show(predictions: Any, title: str) -> None:
    from motifair.table import Table

    cells = predictions.map(lambda v: f"{v:.4f}" if isinstance(v, float) else str(v))
    Console().print(Table.of(cells.set_index("graph"), title).to_rich())
