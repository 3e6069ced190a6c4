"""What a run is before it starts: options, data and device, all checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from motifair.config import Config, make_config
from motifair.cores import usable_cores
from motifair.errors import MotifairError
from motifair.files import read_json, write_json
from motifair.graphs.dataset import EMBEDDED, GENERATED, OWN, Dataset, Objects, load_dataset
from motifair.graphs.inputs import Inputs, choose_features, describe_inputs
from motifair.graphs.split import Split, make_split
from motifair.graphs.tu import data_folder
from motifair.methods import (
    MECHANISM_OPTIONS,
    find_method,
    make_method,
    method_settings,
    refuse_unused,
)

Given = str | Path | Objects | Config | None  # what `run` and the like take first


@dataclass(frozen=True)
class Plan:
    """A run that was checked and can start: configuration, data and where to compute."""

    config: Config
    data: Dataset
    device: torch.device
    threads: int
    data_dir: Path | None
    memory: int = 0  # bytes that a stack of splits may take, on a GPU

    @property
    def inputs(self) -> Inputs:
        """What of the graphs is used, and what is ignored."""
        motifs = make_method(self.config).uses_motifs
        return describe_inputs(self.data, self.config.features, motifs=motifs)

    def environment(self) -> dict[str, Any]:
        """Return what else decides the last bit of a result."""
        return {
            "device": str(self.device),
            "threads": self.threads,
            "memory": self.memory,
            "data_dir": None if self.data_dir is None else str(self.data_dir.resolve()),
        }

    def about(self, seed: int, part: str) -> dict[str, Any]:
        """Return what must agree when a part of a run goes on, or serves another method."""
        config = self.config if part == "method" else alone(self.config)
        device = self.device.type
        return {"config": config.digest(), "device": device, "seed": seed, "part": part}


def join_settings(
    dataset: Given, config: Config | None, options: Mapping[str, Any]
) -> tuple[str | Path | Objects, dict[str, Any]]:
    """Return the dataset and the options that were set: those of `config`, under the others.

    The configuration may stand in the place of the dataset, which it then names.
    """
    if isinstance(dataset, Config):
        if config is not None:
            raise MotifairError("Two configurations were given; give one, and options by name.")
        dataset, config = None, dataset
    known = {} if config is None else {name: getattr(config, name) for name in config.given}
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
    """Check everything a user can get wrong, before anything is written."""
    if isinstance(dataset, Path):
        dataset = str(dataset)
    # Where datasets are is remembered, so that a run can go on from a shell that does not know.
    by_name = isinstance(dataset, str) and dataset not in GENERATED
    folder = data_folder(None if data_dir is None else Path(data_dir)) if by_name else None
    name = dataset if isinstance(dataset, str) else OWN
    if "method" in options:
        options = {**options, **method_settings(options["method"])}
    settings = {**options, "dataset": name}
    config = make_config(settings)
    find_method(config.method)
    data = load_dataset(dataset, agents=config.agents, seed=config.seed, data_dir=folder)
    config = _with_owners(config, data, options)
    refuse_unused(config, options)
    config = replace(config, features=choose_features(data, config.features))
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
    split_data(plan, 0)
    return plan


def _with_owners(config: Config, data: Dataset, given: Mapping[str, Any]) -> Config:
    """Where the data say who holds what, that is the partition unless another one is asked for."""
    if data.owner is None:
        return config
    if "partition" not in given:
        config = replace(config, partition="domains")
    if config.partition == "domains":
        if "agents" in given and config.agents != len(data.owners):
            raise MotifairError(
                f"{data.name} belongs to {len(data.owners)} agents, but agents={config.agents}; "
                "leave agents out, or use partition=iid."
            )
        config = replace(config, agents=len(data.owners))
    return config


def _check_domains(config: Config, data: Dataset) -> None:
    """Refuse to share all parameters between datasets whose inputs do not mean the same."""
    what = {"label": "labels", "attributes": "attributes"}.get(config.features)
    if len(data.schemas) > 1 and what and make_method(config).share == "all":
        raise MotifairError(
            f"The node {what} of {' and '.join(data.schemas)} do not mean the same, so "
            f"{config.method} cannot share all parameters between them; use share=conv (or "
            "features=degree)."
        )


def choose_device(name: str) -> torch.device:
    """Turn `auto`, `cpu` or `cuda` into a device that is there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise MotifairError(f"device takes auto or cpu or cuda, not '{name}'.")
    if name == "cuda" and not torch.cuda.is_available():
        raise MotifairError("No CUDA device is available here; use --device cpu or auto.")
    return torch.device(name)


def choose_memory(gigabytes: float | None, device: torch.device) -> int:
    """Return how many bytes a stack may take: as asked, or 80 % of what is free."""
    if device.type == "cpu":
        if gigabytes is not None:
            raise MotifairError("On a CPU splits go one after another; leave --memory out.")
        return 0
    free, _ = torch.cuda.mem_get_info(device)
    if gigabytes is None:
        return int(0.8 * free)
    if not 0 < gigabytes * 2**30 <= free:
        raise MotifairError(
            f"--memory takes GiB of the GPU, more than 0 and at most the {free / 2**30:.0f} free."
        )
    return int(gigabytes * 2**30)


def split_data(plan: Plan, number: int) -> Split:
    """Make data split `number`; the embedded dataset is generated anew for each seed."""
    c = plan.config
    seed = c.seed if c.fixed_split else c.seed + number
    data = plan.data
    if c.dataset == EMBEDDED and seed != c.seed:
        data = load_dataset(c.dataset, agents=c.agents, seed=seed)
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
    """Write `config.json` to the folder of a run: what `read_plan` reads."""
    content = {"options": config.to_json(), "environment": environment, "inputs": inputs}
    write_json(out / "config.json", content)


def read_plan(out: Path) -> Plan:
    """Read the plan of an earlier run, to be executed in the same folder."""
    if not (out / "config.json").exists():
        raise MotifairError(f"{out} holds no run; give the folder that --out named.")
    stored = read_json(out / "config.json")
    if "inputs" not in stored:
        raise MotifairError(
            f"{out} was written by motifair 0.1, which read graphs and seeded models in another "
            "way; run again into another folder."
        )
    options, environment = dict(stored["options"]), stored["environment"]
    if options["dataset"] == OWN:
        raise MotifairError(
            "This run's graphs were given in Python; call motifair.run with the same graphs and "
            f"out='{out}' to go on."
        )
    dataset = options.pop("dataset")
    config = make_config({**options, "dataset": dataset})
    folder = None if environment["data_dir"] is None else Path(environment["data_dir"])
    data = load_dataset(dataset, agents=config.agents, seed=config.seed, data_dir=folder)
    device = choose_device(environment["device"])
    memory = environment.get("memory", 0)
    return Plan(config, data, device, environment["threads"], folder, memory)


def alone(config: Config) -> Config:
    """Return the same training without a federation, evaluated only at its end.

    What only a mechanism reads is reset, so that all methods have one and the same baseline.
    """
    usual = Config(profile="paper")
    other = ("profile", "splits")
    unread = {name: getattr(usual, name) for name in (*MECHANISM_OPTIONS, *other)}
    return replace(config, **{**unread, "method": "self-train", "eval_every": config.rounds})
