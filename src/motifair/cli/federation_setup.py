"""Commands of `motifair federation` before a run: terms, requests and startup kits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from motifair.cli import complete
from motifair.cli.shared import Smiles, Targets, choose_columns
from motifair.errors import MotifairError
from motifair.extras import require

if TYPE_CHECKING:
    from motifair.consortium.operator_folder import OperatorFolder
    from motifair.graphs.features import AttributeSums
    from motifair.graphs.task import TargetSums

T = TypeVar("T")
Folder = Annotated[Path, typer.Option("--folder", help="The operator's folder.")]
Member = Annotated[str, typer.Argument(help="A member named in federation.toml.")]
Task = Annotated[
    str,
    typer.Option(
        help="What is predicted: auto, classes, binary or regression.",
        autocompletion=complete.task,
    ),
]
HERE = Path()


def check_extra() -> None:
    """Require the extra before anything is read or written; imports below would name another."""
    require("federation", "A federation between machines")


def operator_folder(folder: Path) -> OperatorFolder:
    """Return the operator's folder, if the extra is there."""
    check_extra()
    from motifair.consortium.operator_folder import OperatorFolder

    return OperatorFolder(folder)


def init(
    like: Annotated[Path, typer.Option(help="Sample graphs, from which the schema is made.")],
    members: Annotated[str, typer.Option(help="Names of the members, separated by commas.")],
    name: Annotated[str, typer.Option(help="Name of the federation.")] = "federation",
    features: Annotated[
        str,
        typer.Option(
            help="auto, first, label, attributes, label+attributes or degree.",
            autocompletion=complete.features,
        ),
    ] = "auto",
    edges: Annotated[
        str,
        typer.Option(help="Edge labels: auto, label or ignore.", autocompletion=complete.edges),
    ] = "ignore",
    task: Task = "auto",
    sums: Annotated[
        list[Path] | None,
        typer.Option(help="A member's file from `federation sums`; once for each member."),
    ] = None,
    smiles: Smiles = None,
    targets: Targets = None,
    folder: Folder = HERE,
) -> None:
    """Write a commented federation.toml, ready to edit.

    Attributes are standardised, targets that are numbers scaled, and the networks for binary tasks
    begun at their base rates, by the members' --sums, or without them by the sample.
    """
    from motifair.graphs.dataset import Dataset
    from motifair.graphs.inputs import describe_inputs
    from motifair.graphs.read import read_graphs
    from motifair.graphs.schema import Schema

    operator = operator_folder(folder)
    columns = choose_columns(like, smiles, targets or "")
    sample = read_graphs(like, columns)
    schema = Schema.of(sample, features, edges, task)
    scaled = schema.task is not None
    if sums and (schema.mean or not scaled):
        schema = schema.standardised_by([_attribute_sums(path) for path in sums])
    if sums and scaled:
        schema = schema.scaled_by([_target_sums(path) for path in sums])
    names = [m.strip() for m in members.split(",")]
    path = operator.write_terms(name, names, schema, columns)
    typer.echo(
        describe_inputs(
            Dataset(sample),
            schema.features,
            edges=bool(schema.edges),
            motifs=True,
            task=schema.predicted.kind,
        )
    )
    typer.echo(f"Wrote {path}. Edit it, then: motifair federation provision --folder {folder}")


def write_sums(
    graphs: Annotated[Path, typer.Option(help="The member's graphs.")],
    out: Annotated[Path, typer.Option(help="The file to write.")],
    smiles: Smiles = None,
    targets: Targets = None,
    task: Task = "auto",
) -> None:
    """Write the sums of a member's node attributes and targets, for the operator's `init --sums`.

    They are the number of its nodes, and of each attribute the mean and the sum of squares; and of
    targets that are numbers or binary answers how many are known, their mean and their sum of
    squares. A CSV file's targets are those of --targets.
    """
    from motifair.files import write_json
    from motifair.graphs.features import AttributeSums, resolve_features
    from motifair.graphs.read import read_graphs
    from motifair.graphs.schema import with_numbers
    from motifair.graphs.task import BINARY, REGRESSION, TargetSums

    read, words = read_graphs(graphs, choose_columns(graphs, smiles, targets)), []
    if task in (BINARY, REGRESSION):
        read = with_numbers(read)
    content: dict[str, Any] = {}
    if read.values is not None:
        content["targets"] = TargetSums.of(read.values).to_json()
        words.append(f"{read.values.shape[1]} targets")
    if read.attribute is not None or not words:
        resolve_features(read, "attributes")
        assert read.attribute is not None
        content |= AttributeSums.of(read.attribute).to_json()
        words.insert(0, f"{read.attribute.shape[1]} attributes")
    write_json(out, content)
    typer.echo(f"Wrote {out}: sums of {' and '.join(words)}, for the operator.")


def _attribute_sums(path: Path) -> AttributeSums:
    from motifair.graphs.features import AttributeSums

    return _read_sums(path, "attributes", AttributeSums.from_json)


def _target_sums(path: Path) -> TargetSums:
    from motifair.graphs.task import TargetSums

    return _read_sums(path, "targets", lambda content: TargetSums.from_json(content["targets"]))


def _read_sums(path: Path, what: str, parse: Callable[[Any], T]) -> T:
    from motifair.files import read_json

    try:
        return parse(read_json(path))
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise MotifairError(
            f"{path} has no sums of {what}; write it with: motifair federation sums"
            f"{' (of a CSV file with --targets, as for init).' if what == 'targets' else '.'}"
        ) from error


def request(
    member: Annotated[str, typer.Argument(help="The member's name in federation.toml.")],
    out: Annotated[Path, typer.Option(help="Folder for both files.")] = HERE,
) -> None:
    """Make a member's own key, and the request for a certificate to send to the operator."""
    check_extra()
    from motifair.consortium.keys import write_request
    from motifair.consortium.terms import NAME

    if not NAME.fullmatch(member):
        raise MotifairError(
            f"A member cannot be called '{member}'; use lower-case letters, digits, hyphens."
        )
    key, wanted = write_request(out, member)
    typer.echo(f"Send {wanted} to the operator. Keep {key} to yourself, next to the kit you get.")


def provision(folder: Folder = HERE) -> None:
    """Make one startup kit for the server, the operator and each member.

    Members' requests must be in FOLDER/requests.
    """
    operator = operator_folder(folder)
    for kit in operator.provision():
        typer.echo(str(kit))
    typer.echo("Send each member its kit: it has no private key, which only the member has.")


def terms(folder: Folder = HERE) -> None:
    """Print the federation.toml for members: the terms without the location of the ledger."""
    typer.echo(operator_folder(folder).members_terms(), nl=False)


def add(member: Member, folder: Folder = HERE) -> None:
    """Make the startup kit of a new member; add it to federation.toml, its request to requests."""
    typer.echo(str(operator_folder(folder).add(member)))


def renew(member: Member, folder: Folder = HERE) -> None:
    """Make a new kit, with a new certificate, for a member, `server`, or the operator."""
    typer.echo(str(operator_folder(folder).renew(member)))


def remove(member: Member, folder: Folder = HERE) -> None:
    """Refuse a member's certificate from now on; also remove it from federation.toml."""
    operator_folder(folder).remove(member)
    typer.echo(f"{member} is removed: its certificate is refused.")


def readmit(member: Member, folder: Folder = HERE) -> None:
    """Accept a removed member's certificate again; first put it back into federation.toml."""
    operator_folder(folder).readmit(member)
    typer.echo(
        f"{member} is admitted again: have it start its agent, then start `run` again. A run that "
        "went on without it takes it as a new member."
    )
