"""`motifair data`: list, describe and check datasets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from motifair.cli import complete
from motifair.cli.shared import DataDir, Json, Smiles, Targets, choose_columns, print_json

if TYPE_CHECKING:
    import pandas as pd

    from motifair.graphs.graph_set import GraphSet

MOST_TARGETS = 20  # that are printed
app = typer.Typer(no_args_is_help=True, help="List, describe and check datasets.")

Dataset = Annotated[
    str,
    typer.Argument(
        help="Name, or path of a TU folder or zip, or of a file with graphs.",
        autocompletion=complete.dataset,
    ),
]


@app.command("list")
def list_(data_dir: DataDir = None, as_json: Json = False) -> None:
    """List the datasets known by name, and which of them are on this machine."""
    import pandas as pd

    from motifair.graphs.tu import KNOWN, locate

    rows = [{"dataset": "planted", "graphs": "120 an agent", "nodes": "about 25",
             "edges": "about 28", "found": "embedded"},
            {"dataset": "twitter-like", "graphs": "144033", "nodes": "4.03",
             "edges": "4.98", "found": "generated"}]  # fmt: skip
    for name, known in KNOWN.items():
        path = locate(name, data_dir)
        rows.append(
            {"dataset": name, "graphs": str(known.graphs), "nodes": str(known.nodes),
             "edges": str(known.edges), "found": "download" if path is None else str(path)}
        )  # fmt: skip
    print_frame(pd.DataFrame(rows).set_index("dataset"), "Datasets", as_json)


@app.command()
def info(
    dataset: Dataset,
    agents: Annotated[int | None, typer.Option(help="Number of agents.")] = None,
    partition: Annotated[
        str | None,
        typer.Option(help="How the graphs are shared out.", autocompletion=complete.partition),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            help="How the agents' contributions differ.", autocompletion=complete.scenario
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split.")] = 0,
    smiles: Smiles = None,
    targets: Targets = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Describe a dataset, and how a partition shares it out to agents."""
    import pandas as pd

    from motifair.experiments.plan import make_plan, split_data

    options = {"agents": agents, "partition": partition, "scenario": scenario, "seed": seed,
               "smiles": smiles, "targets": targets}  # fmt: skip
    settings = {k: v for k, v in options.items() if v is not None}
    plan = make_plan(dataset, settings, data_dir=data_dir, device="cpu", threads=1)
    graphs, parts = plan.data.graphs, plan.data.parts
    sets = [part.graphs for part in parts] or [graphs]
    about = {one.name: _about(one) for one in sets}
    frame, per_target = split_data(plan, 0).to_frame(), pd.concat([_targets(one) for one in sets])
    if as_json:
        tables = {"targets": per_target, "agents": frame}
        rows = {k: json.loads(t.reset_index().to_json(orient="records")) for k, t in tables.items()}
        own = {"datasets": about} if parts else about[graphs.name]
        print_json({"dataset": graphs.name, **own, "inputs": plan.inputs.to_json(), **rows})
        return
    console = Console()
    for name, numbers in about.items():
        console.print(f"{name}: " + ", ".join(f"{k} {v}" for k, v in numbers.items()))
    console.print(str(plan.inputs), highlight=False, markup=False, soft_wrap=True)
    if len(per_target):
        print_frame(per_target.head(MOST_TARGETS), f"targets ({len(per_target)})", as_json)
    print_frame(frame, f"partition {plan.config.partition}, seed {seed}", as_json)


def _about(graphs: GraphSet) -> dict[str, Any]:
    """Return the size of a dataset, and what its nodes, edges and graphs have."""
    return {
        "graphs": len(graphs),
        **(
            {"classes": graphs.classes}
            if graphs.values is None
            else {"targets": graphs.values.shape[1]}
        ),
        "mean nodes": round(float(graphs.nodes.mean()), 2),
        "mean edges": round(float(graphs.edges.mean()), 2),
        "node labels": 0 if graphs.node_label is None else len(set(graphs.node_label.tolist())),
        "edge labels": 0 if graphs.edge_label is None else len(set(graphs.edge_label.tolist())),
        "attributes": 0 if graphs.attribute is None else graphs.attribute.shape[1],
        "largest degree": int(graphs.degree.max()),
    }


def _targets(graphs: GraphSet) -> pd.DataFrame:
    """Return a table of targets that are no classes: labels, least, mean and largest value."""
    import pandas as pd

    values = pd.DataFrame(graphs.values, columns=list(graphs.target_names))
    table = values.agg(["count", "min", "mean", "max"]).T if len(values.columns) else values.T
    return table.rename(columns={"count": "labels"}).rename_axis("target")


@app.command()
def check(
    dataset: Dataset,
    smiles: Smiles = None,
    targets: Targets = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Read a dataset, and compare it with its published statistics and digest.

    Of a file with molecules every SMILES is listed that RDKit cannot read.
    """
    from motifair.graphs.dataset import GENERATED, load_dataset
    from motifair.graphs.tu import KNOWN

    about: dict[str, Any] = {"dataset": dataset, "generated": dataset in GENERATED}
    sentence = f"{dataset} is generated here: there is no file to check."
    if dataset not in GENERATED:
        columns = choose_columns(Path(dataset), smiles, targets)
        data = load_dataset(dataset, agents=2, seed=0, data_dir=data_dir, columns=columns)
        graphs = data.graphs
        published = graphs.name in KNOWN
        about |= {"dataset": graphs.name, "published": published, "graphs": len(graphs)}
        about["digest"] = graphs.digest()
        known = "is the published dataset" if published else "is readable (not a known name)"
        sentence = f"{graphs.name} {known}: {len(graphs)} graphs, digest {about['digest'][:16]}"
        if data.table is not None:
            about["unreadable"] = [{"line": k, "smiles": s} for k, s in data.table.unreadable]
            lines = [f"line {k} cannot be read: {s or 'empty'}" for k, s in data.table.unreadable]
            sentence = "\n".join([sentence, *lines])
    print_json(about) if as_json else typer.echo(sentence)


def print_frame(frame: Any, title: str, as_json: bool) -> None:
    """Print a frame as a table or as JSON."""
    from motifair.table import Table

    if as_json:
        print_json(json.loads(frame.reset_index().to_json(orient="records")))
    else:
        Console().print(Table.of(frame, title).to_rich())
