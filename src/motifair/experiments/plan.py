"""The checked plan of a run: options, data and device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from motifair.config import OPTIONS, Config, make_config
from motifair.cores import usable_cores
from motifair.errors import MotifairError
from motifair.evaluation.metrics import choose_metric
from motifair.federation.members import make_network
from motifair.files import damaged_files, read_json, write_json
from motifair.graphs.csv_file import Columns
from motifair.graphs.dataset import EMBEDDED, GENERATED, OWN, Dataset, Objects, load_dataset
from motifair.graphs.features import ATTRIBUTES, BOTH, LABEL
from motifair.graphs.inputs import Inputs, choose_edges, choose_features, describe_inputs
from motifair.graphs.molecules import LARGEST_RING, SMILES
from motifair.graphs.owners import FUNCTION, SCAFFOLD, Owners, by_column, by_function
from motifair.graphs.partition import EXCLUSIVE, KINDS
from motifair.graphs.split import Split, make_split
from motifair.graphs.task import REGRESSION, resolve_task
from motifair.graphs.tu import data_folder
from motifair.methods import (
    MECHANISM_OPTIONS,
    check_own_spaces,
    find_method,
    fit_to_model,
    make_method,
    method_settings,
    own_model,
    refuse_unused,
)
from motifair.models.factory import is_known, name_model

ALONE = ("alone", "alone-again")  # parts of a run that train without a federation
SHARED_OUT = (*KINDS, *EXCLUSIVE)  # partitions by which graphs without owners are shared out
Given = str | Path | Objects | Config | None  # first argument of `run`, `compare` and `sweep`


@dataclass(frozen=True)
class Plan:
    """A checked run that can start: configuration, data and device."""

    config: Config
    data: Dataset
    device: torch.device
    threads: int
    data_dir: Path | None
    memory: int = 0  # bytes for a stack of splits, on a GPU

    @property
    def inputs(self) -> Inputs:
        """Which parts of the graphs are used, and which are ignored."""
        method = make_method(self.config)
        edges = self.config.edges == LABEL and method.reads_edges()
        features, motifs = self.config.features, method.uses_motifs
        task, model = self.config.task, own_model(method)
        return describe_inputs(
            self.data, features, edges=edges, motifs=motifs, task=task, model=model
        )

    def environment(self) -> dict[str, Any]:
        """Return device, threads, memory and data folder, which may change a result's last bit."""
        return {
            "device": str(self.device),
            "threads": self.threads,
            "memory": self.memory,
            "data_dir": None if self.data_dir is None else str(self.data_dir.resolve()),
        }

    def about(self, seed: int, part: str, rounds: int | None = None) -> dict[str, Any]:
        """Return what must match to continue a part from a checkpoint, or to share it.

        `rounds` are those of the checkpoint's run, if that was shorter; default this one's.
        """
        config = self.config
        if rounds is not None:
            config = replace(config, rounds=min(rounds, config.rounds))
        config = alone(config) if part in ALONE else config
        device = self.device.type
        return {"config": config.digest(), "device": device, "seed": seed, "part": part}


def join_settings(
    dataset: Given, config: Config | None, options: Mapping[str, Any]
) -> tuple[str | Path | Objects, dict[str, Any]]:
    """Return the dataset and the options that were set; `options` override those of `config`.

    A configuration may be given instead of the dataset, which it then names.
    """
    if isinstance(dataset, Config):
        if config is not None:
            raise MotifairError("Two configurations were given; give one, and options by name.")
        dataset, config = None, dataset
    known = {} if config is None else {name: config.value(name) for name in config.given}
    settings = {**known, **options}
    named = settings.pop("dataset", EMBEDDED)
    if dataset is None and named == OWN:
        raise MotifairError(
            "The graphs of this configuration were given in Python; give them as the dataset."
        )
    return named if dataset is None else dataset, settings


def make_plan(
    dataset: str | Path | Objects,
    options: Mapping[str, Any],
    *,
    data_dir: str | Path | None = None,
    device: str = "auto",
    threads: int | None = None,
    memory: float | None = None,
) -> Plan:
    """Check options, data and device before anything is written; return the plan."""
    if isinstance(dataset, Path):
        dataset = str(dataset)
    if isinstance(dataset, list | tuple) and dataset and isinstance(dataset[0], str | Path):
        dataset = ",".join(str(one) for one in dataset)
    # The data folder is stored, so that a run can continue where MOTIFAIR_DATA is not set.
    by_name = isinstance(dataset, str) and dataset not in GENERATED
    folder = data_folder(None if data_dir is None else Path(data_dir)) if by_name else None
    name = dataset if isinstance(dataset, str) else OWN
    function = options.get("partition")
    if callable(function):
        options = {**options, "partition": FUNCTION}
    if "method" in options:
        options = {**options, **method_settings(options["method"])}
    if "model" in options:
        options = {**options, "model": name_model(options["model"])}
    settings = {**options, "dataset": name}
    config = make_config(settings)
    find_method(config.method)
    agents = config.agents if "agents" in options else None
    data = _load(dataset, config, folder, agents, function if callable(function) else None)
    config = _with_owners(_with_spaces(config, data, options), data, options)
    config = _as_molecules(config, data, options)
    refuse_unused(config, options)
    data, task = with_task(data, config.task)
    config = replace(
        config,
        features=choose_features(data, config.features),
        edges=choose_edges(data, config.edges),
        task=task,
        metric=choose_metric(task, config.metric),
    )
    _check_validation(config)
    _check_domains(config, data)
    where = choose_device(device)
    if threads is not None and threads < 1:
        raise MotifairError(f"threads takes a whole number of at least 1, not {threads}.")
    plan = Plan(
        config=config,
        data=data,
        device=where,
        threads=threads or usable_cores(),
        data_dir=folder,
        memory=choose_memory(memory, where),
    )
    split = split_data(plan, 0)
    if not config.model:
        return plan
    models = [
        make_network(config, part, list(part.partition.train))[1] for part in split.parts or [split]
    ]
    config = fit_to_model(config, models[0], options)
    if split.parts:
        check_own_spaces(config, models)
    return replace(plan, config=config)


def _load(
    dataset: str | Objects,
    config: Config,
    folder: Path | None,
    agents: int | None,
    function: Owners | None = None,
) -> Dataset:
    """Return the dataset, with the owner of each graph if the partition is by column or function.

    `agents` is their number, or None if it follows from the data.
    """
    choices = OPTIONS["partition"].metadata["choices"]
    group = "" if config.partition in (*choices, FUNCTION) else config.partition
    data = load_dataset(
        dataset,
        agents=config.agents,
        seed=config.seed,
        data_dir=folder,
        columns=Columns(config.smiles, config.targets, group),
        spaces=config.spaces,
    )
    molecules = data.molecules or any(part.molecules for part in data.parts)
    if not molecules and (config.smiles or config.targets):
        raise MotifairError(
            f"{data.name} has no molecules in a CSV file; leave --smiles and --targets out."
        )
    if function is not None:
        return by_function(data, function)
    if group or config.partition == SCAFFOLD:
        return by_column(data, config.partition, agents, choices)
    return data


def _as_molecules(config: Config, data: Dataset, given: Mapping[str, Any]) -> Config:
    """Return the configuration for molecules: the column of SMILES is named, and rings of up to
    `LARGEST_RING` atoms are motifs, unless another size is set.
    """
    if not data.molecules:
        return config
    smiles = SMILES if data.table is None else data.table.smiles
    longer = config.rings == "chordless" and "max_ring" not in given
    return replace(
        config, smiles=config.smiles or smiles, max_ring=LARGEST_RING if longer else config.max_ring
    )


def with_task(data: Dataset, task: str) -> tuple[Dataset, str]:
    """Return the data with targets as this task has them, and `auto` resolved."""
    if data.parts:
        parts, kinds = zip(*(with_task(part, task) for part in data.parts), strict=True)
        if len(set(kinds)) > 1:
            each = ", ".join(f"{p.name} {kind}" for p, kind in zip(parts, kinds, strict=True))
            raise MotifairError(
                f"The datasets are for different tasks ({each}), whose scores cannot be compared; "
                "join datasets of one task, or set task."
            )
        return replace(data, parts=parts), kinds[0]
    graphs, kind = resolve_task(data.graphs, task)
    return replace(data, graphs=graphs), kind


def _check_validation(config: Config) -> None:
    """Refuse a method that divides the scores of updates where scores are below 0."""
    if find_method(config.method).validation and config.task == REGRESSION:
        raise MotifairError(
            f"{config.method} shares reputation out by accuracy, which a regression has not; use "
            "another method, or task=classes."
        )


def _with_spaces(config: Config, data: Dataset, given: Mapping[str, Any]) -> Config:
    """Return the configuration of a run whose datasets have inputs and classes of their own.

    There is one agent for each dataset, or `agents` are shared out equally to them, and each
    dataset to its agents by the partition. Nothing but convolutions is shared.
    """
    if not data.parts:
        if config.spaces == "own":
            raise MotifairError(
                f"spaces=own is for several datasets, but {data.name} is one; join several with "
                "commas."
            )
        return replace(config, spaces="common")
    count = len(data.owners)
    agents = config.agents if "agents" in given else count
    if agents % count:
        raise MotifairError(
            f"agents={agents} cannot be shared out equally to the {count} datasets of {data.name}; "
            "use a multiple of that, or leave it out for one agent each."
        )
    one_each = agents == count
    shared_out = "partition" in given and config.partition != "domains"
    damaged = config.scenario != "none" or config.perturbation != "none"
    if one_each and (shared_out or damaged):
        raise MotifairError(
            "Partitions, perturbations and scenarios are within a dataset, and each has one agent; "
            f"use agents={2 * count} or another multiple, or leave them out."
        )
    if not one_each and config.partition not in SHARED_OUT:
        raise MotifairError(
            f"partition={config.partition} does not share a dataset out to {agents // count} "
            f"agents; use {' or '.join(SHARED_OUT)}."
        )
    method = find_method(config.method)
    share = "conv" if "share" not in given and "share" in method.options else config.share
    partition = "domains" if one_each else config.partition
    return replace(config, spaces="own", agents=agents, partition=partition, share=share)


def _with_owners(config: Config, data: Dataset, given: Mapping[str, Any]) -> Config:
    """Return the configuration with the data's own partition, unless another one is set."""
    if data.owner is None or data.parts:
        return config
    if "partition" not in given and config.scenario == "none":
        config = replace(config, partition="domains")
    if config.partition not in SHARED_OUT:
        if "agents" in given and config.agents != len(data.owners):
            raise MotifairError(
                f"{data.name} belongs to {len(data.owners)} agents, but agents={config.agents}; "
                "leave agents out, or use partition=iid."
            )
        config = replace(config, agents=len(data.owners))
    return config


def _check_domains(config: Config, data: Dataset) -> None:
    """Refuse to share all parameters between datasets whose inputs differ in meaning."""
    what = {
        LABEL: "labels",
        ATTRIBUTES: "attributes",
        BOTH: "labels and attributes",
    }.get(config.features)
    if data.parts:
        _check_spaces(config, data)
    elif len(data.schemas) > 1 and what and make_method(config).share == "all":
        raise MotifairError(
            f"The node {what} of {' and '.join(data.schemas)} do not mean the same, so "
            f"{config.method} cannot share all parameters between them; use share=conv (or "
            "features=degree)."
        )


def _check_spaces(config: Config, data: Dataset) -> None:
    """Refuse what needs a model of all members where each has inputs and classes of its own."""
    names = " and ".join(part.name for part in data.parts)
    if make_method(config).share == "all":
        raise MotifairError(
            f"{names} have inputs and classes of their own, so {config.method} cannot share all "
            "parameters between them; use a method that shares convolutions (share=conv), or "
            "spaces=common where labels and classes mean the same."
        )
    if config.contribution:
        raise MotifairError(
            "contribution measures what agents add to the server's model, but there is none where "
            f"{names} have inputs and classes of their own; leave it out."
        )


def choose_device(name: str) -> torch.device:
    """Return the device for `auto`, `cpu` or `cuda`; refuse one that is not available."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise MotifairError(f"device takes auto or cpu or cuda, not '{name}'.")
    if name == "cuda" and not torch.cuda.is_available():
        raise MotifairError("No CUDA device is available here; use --device cpu or auto.")
    return torch.device(name)


def choose_memory(gigabytes: float | None, device: torch.device) -> int:
    """Return the bytes for a stack: `gigabytes` GiB, or 80 % of the free memory; 0 on a CPU."""
    if device.type == "cpu":
        if gigabytes is not None:
            raise MotifairError("On a CPU splits run one after another; leave --memory out.")
        return 0
    free, total = torch.cuda.mem_get_info(device)
    if gigabytes is None:
        return int(0.8 * free)
    # What is free now says little where processes share the device: each was given its part.
    if not 0 < gigabytes * 2**30 <= total:
        raise MotifairError(
            f"--memory takes GiB of the GPU, more than 0 and at most its {total / 2**30:.0f}."
        )
    return int(gigabytes * 2**30)


def split_data(plan: Plan, number: int) -> Split:
    """Return data split `number`; the embedded dataset is generated again for each seed."""
    c = plan.config
    seed = c.seed if c.fixed_split else c.seed + number
    data = plan.data
    if c.dataset == EMBEDDED and seed != c.seed:
        made = load_dataset(c.dataset, agents=c.agents, seed=seed)
        data, _ = with_task(made, c.task)
    return make_split(
        data,
        partition=c.partition,
        agents=c.agents,
        test_fraction=c.test_fraction,
        skew=c.skew,
        perturbation=c.perturbation,
        seed=seed,
    )


def write_config(
    out: Path, config: Config, environment: Mapping[str, Any], inputs: Mapping[str, Any]
) -> None:
    """Write `config.json`, which `read_plan` reads, to the folder of a run."""
    content = {"options": config.to_json(), "environment": environment, "inputs": inputs}
    write_json(out / "config.json", content)


def read_plan(out: Path) -> Plan:
    """Return the plan of an earlier run, to continue it in the same folder."""
    if not (out / "config.json").exists():
        raise MotifairError(
            f"{out} holds no run; give the folder that --out named (an unfinished comparison "
            "continues with the same command)."
        )
    with damaged_files(out):
        return _read_plan(out, read_json(out / "config.json"))


def _read_plan(out: Path, stored: Mapping[str, Any]) -> Plan:
    if "inputs" not in stored:
        raise MotifairError(
            f"{out} was written by motifair 0.1, which read graphs and seeded models in another "
            "way; run again into another folder."
        )
    options, environment = dict(stored["options"]), stored["environment"]
    in_python = {
        "graphs were given in Python": ("graphs", options["dataset"] == OWN),
        "graphs were shared out by a function": ("function", options["partition"] == FUNCTION),
        "model was given in Python": ("model", not is_known(options.get("model", ""))),
    }
    for what, (part, is_so) in in_python.items():
        if is_so:
            raise MotifairError(
                f"This run's {what}; call motifair.run with the same {part} and out='{out}' to "
                "continue."
            )
    dataset = options.pop("dataset")
    config = make_config({**options, "dataset": dataset})
    folder = None if environment["data_dir"] is None else Path(environment["data_dir"])
    data = _load(dataset, config, folder, config.agents)
    data, _ = with_task(data, config.task)
    device = choose_device(environment["device"])
    memory = environment.get("memory", 0)
    return Plan(config, data, device, environment["threads"], folder, memory)


def alone(config: Config) -> Config:
    """Return the configuration of the same training without a federation, evaluated at its end.

    Options of the mechanism are reset, so that all methods share one baseline.
    """
    usual = Config(profile="paper")
    # Partition and perturbation say what a scenario is.
    other = ("profile", "splits", "scenario", "incentives")
    unread = {name: getattr(usual, name) for name in (*MECHANISM_OPTIONS, *other)}
    return replace(config, **{**unread, "method": "self-train", "eval_every": config.rounds})
