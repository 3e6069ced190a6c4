"""The result of a run: a summary over splits, the agents, and every round."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from motifair.config import Config
from motifair.errors import MotifairError
from motifair.evaluation.fairness import fairness_bound
from motifair.evaluation.incentives import Giving
from motifair.evaluation.metrics import Metric, find_metric
from motifair.evaluation.statistics import mean_interval
from motifair.experiments.caveats import fairness_caveats
from motifair.experiments.origin import Origin
from motifair.experiments.split_result import METRICS, SplitResult
from motifair.federation.history import History
from motifair.files import damaged_files, file_errors, read_json, write_atomic, write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from motifair.statements.statement import Statement


COMPARISON = "comparison.json"  # in the folder of a comparison, above those of its runs
# Lines of the summary with the option `incentives`.
_GIVING = {
    "accuracy_slope": ("accuracy slope", "one agent's, from giving no graph to giving all"),
    "pay_slope": ("pay slope", "of the same agent, 1 being its pay for giving all"),
    "free_rider_gain": ("free-rider gain", "its accuracy for giving nothing, over alone"),
}


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a method on all splits of a dataset, from `run` or `load_result`.

    `print(result)` is a summary, in a notebook it is a table.

    Attributes:
        config: the options, as they were resolved.
        splits: the result of each data split.
        seconds: duration of the run.
        environment: versions, device, inputs and when it finished.
        origin: the plan, folder and models.

    >>> import motifair
    >>> result = motifair.run(method="fedavg", agents=3, rounds=2, hidden=8, device="cpu")
    >>> sorted(result.mean)[:3]
    ['accuracy_slope', 'alone_accuracy', 'contribution_payoff']
    >>> result.history.columns[:4].tolist()
    ['split', 'round', 'agent', 'value']
    """

    config: Config
    splits: tuple[SplitResult, ...]
    seconds: float = 0.0
    environment: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin = field(default_factory=Origin, compare=False)

    @property
    def inputs(self) -> Mapping[str, Sequence[str]]:
        """Which parts of the graphs the run `uses` and which it `ignores`."""
        inputs: Mapping[str, Sequence[str]] = self.environment.get("inputs", {})
        return inputs

    def get_split(self, number: int) -> SplitResult:
        """Return a split by number, from 0; refuse a number out of range."""
        if not 0 <= number < len(self.splits):
            raise MotifairError(
                f"The run has {len(self.splits)} splits, numbered from 0; there is no {number}."
            )
        return self.splits[number]

    @property
    def metric(self) -> Metric:
        """How predictions were judged. `mean`, tables and files have scores, of which more is
        better: an error with its sign turned.
        """
        return find_metric(self.config.metric)

    @property
    def mean(self) -> dict[str, float]:
        """Each metric's mean over the splits where it is defined."""
        return {m: mean_interval(v)[0] for m, v in self._values().items()}

    @property
    def ci95(self) -> dict[str, tuple[float, float]]:
        """Each metric's 95 % interval: Student's over splits.

        With one split the fairness has Fisher's interval over agents; other metrics have none.
        """
        errors = self.metric.is_error
        intervals = {
            m: _possible(m, mean_interval(v)[1:], errors=errors) for m, v in self._values().items()
        }
        if len(self.splits) == 1:
            low, high = self.splits[0].to_json()["fairness_ci95"]
            intervals["fairness"] = (low, high)
        return intervals

    def judged(self, name: str) -> tuple[float, float, float]:
        """Return mean and interval of a measure as they are printed: errors as errors."""
        mean, (low, high) = self.mean[name], self.ci95[name]
        turned = name.endswith("_accuracy")
        return self.metric.interval(mean, low, high) if turned else (mean, low, high)

    @property
    def fairness_bound(self) -> float:
        """Approximate upper bound of the measurable fairness: √ of the retest reliability."""
        return fairness_bound(self.mean["fairness_retest"])

    @property
    def fairness_undefined(self) -> int:
        """Number of splits whose fairness is undefined because an accuracy does not vary."""
        return sum(math.isnan(v) for v in self._values()["fairness"])

    @property
    def caveats(self) -> tuple[str, ...]:
        """Reasons why the fairness is unreliable here, as sentences; empty if there are none."""
        return fairness_caveats(self)

    @property
    def history(self) -> pd.DataFrame:
        """One row for each split, round and agent."""
        frames = [s.history.to_frame().assign(split=k) for k, s in enumerate(self.splits)]
        frame = pd.concat(frames, ignore_index=True)
        return frame[["split", *[c for c in frame if c != "split"]]]

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each split and agent."""
        frames = [s.agents_frame().assign(split=k) for k, s in enumerate(self.splits)]
        frame = pd.concat(frames, ignore_index=True)
        return frame[["split", *[c for c in frame if c != "split"]]]

    def to_json(self) -> dict[str, Any]:
        """Return the summary as values that JSON can hold."""
        return {
            "method": self.config.method,
            "dataset": self.config.dataset,
            "metric": self.config.metric,
            "splits": [s.to_json() for s in self.splits],
            "mean": self.mean,
            "ci95": {m: list(v) for m, v in self.ci95.items()},
            "fairness_retest": self.mean["fairness_retest"],
            "fairness_bound": self.fairness_bound,
            "fairness_undefined": self.fairness_undefined,
            "caveats": list(self.caveats),
            "seconds": round(self.seconds, 3),
            **self.environment,
        }

    def __repr__(self) -> str:
        mean = self.mean

        def cell(metric: str) -> str:
            value, low, high = self.judged(metric)
            if math.isnan(value):
                return "undefined" if metric == "fairness" else "-"
            span = "" if math.isnan(low) else f" [{low:.3f}, {high:.3f}]"
            return f"{value:.3f}{span}"

        splits = "1 split" if len(self.splits) == 1 else f"{len(self.splits)} splits"
        c, undefined, judged = self.config, self.fairness_undefined, self.metric.words
        alone = self.metric.sign * mean["alone_accuracy"]
        lines = [
            f"{c.method} on {c.dataset}: {len(self.splits[0].names)} agents, {c.rounds} rounds, "
            f"{splits} from seed {c.seed}",
            f"  {f'personalised {judged}':<21}  {cell('personalised_accuracy')}"
            f"   (alone {alone:.3f}, gain {mean['gain']:+.3f}, "
            f"worst agent {mean['worst_gain']:+.3f}, worse off {100 * mean['worse_off']:.0f} %)",
            f"  rationality            {cell('rationality')}   (not worse off than alone; training "
            f"alone again {mean['rationality_retest']:.3f})",
            f"  {f'global {judged}':<21}  {cell('global_accuracy')}",
            f"  fairness               {cell('fairness')}   (retest "
            f"{mean['fairness_retest']:.3f}, bound {self.fairness_bound:.3f})"
            + (f"  undefined in {undefined} of {splits}" if undefined else ""),
            *(
                f"  {title:<21}  {cell(metric)}   ({how})"
                for metric, (title, how) in _GIVING.items()
                if c.incentives
            ),
            *(f"  caution: {sentence}" for sentence in self.caveats),
        ]
        if self.inputs:
            ignored = ", ".join(self.inputs["ignores"]) or "nothing"
            lines.append(f"  uses                   {', '.join(self.inputs['uses'])}")
            lines.append(f"  ignores                {ignored}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from motifair.experiments.notebook import result_html

        return result_html(self)

    def save(self, folder: str | Path) -> None:
        """Write the result to a folder from which `load_result` reads it back, with its models.

        Arguments:
            folder: for `config.json`, `history.csv`, `agents.csv`, `summary.json` and, if the
                result has its models, `checkpoint`.

        >>> import motifair, tempfile
        >>> result = motifair.run(method="fedavg", agents=3, rounds=2, hidden=8, device="cpu")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result.save(folder)
        ...     repr(motifair.load_result(folder)) == repr(result)
        True
        """
        folder = Path(folder)
        with file_errors():
            folder.mkdir(parents=True, exist_ok=True)
        from motifair.experiments.plan import write_config  # with torch, which readers do not need

        write_config(folder, self.config, self.origin.environment, self.inputs)
        self.origin.save_models(folder, [split.history for split in self.splits])
        self.write_tables(folder)

    def write_tables(self, folder: Path) -> None:
        """Write `history.csv`, `agents.csv` and, last, `summary.json` to a folder."""
        write_atomic(folder / "history.csv", self.history.to_csv(index=False))
        write_atomic(folder / "agents.csv", self.to_frame().to_csv(index=False))
        write_json(folder / "summary.json", self.to_json())

    def report(
        self, path: str | Path, *, figures: str | Path | None = None, split: int = 0
    ) -> Path:
        """Write the result as one HTML file: figures, payoffs, motifs, configuration.

        Arguments:
            path: the file.
            figures: folder for all figures as SVG, PNG and PDF; default none.
            split: number of the split in figures of rounds, from 0.

        Returns:
            The path of the page.

        >>> import motifair
        >>> motifair.run().report("report.html")  # doctest: +SKIP
        PosixPath('report.html')
        """
        from motifair.report.views import write_page

        return write_page(self, Path(path), None if figures is None else Path(figures), split)

    def statement(
        self,
        agent: str,
        *,
        split: int = 0,
        round: int | None = None,
        path: str | Path | None = None,
    ) -> Statement:
        """Return the statement of an agent: its payoff, and how each part of it arises.

        Arguments:
            agent: name of the agent.
            split: number of the split, from 0.
            round: only this round; default all.
            path: .txt, .json, .html or .pdf file to write it to; default none.

        Returns:
            The statement: `payoff`, `totals`, `rounds`, `motifs`, `to_json()`.

        >>> import motifair
        >>> result = motifair.run(agents=3, rounds=2, hidden=8, device="cpu", threads=1)
        >>> paid = result.statement("agent-00")
        >>> sum(paid.totals.values()) == paid.payoff
        True
        """
        from motifair.report.views import state

        return state(self, agent, split, round, None if path is None else Path(path))

    def plot(self, figure: str | None = None, *, split: int = 0) -> Figure:
        """Draw a figure of the report.

        Arguments:
            figure: `accuracy`, `loss`, `value`, `payoff` or another figure of the report;
                default an overview of values, payoffs and accuracies.
            split: number of the split, from 0.

        Returns:
            A matplotlib figure: shown in a notebook, or written by its `savefig`.

        >>> import motifair
        >>> motifair.run().plot("accuracy").savefig("accuracy.pdf")  # doctest: +SKIP
        """
        from motifair.report.views import draw

        return draw(self, figure, split)

    def predict(self, graphs: Any, *, agent: str = "server", split: int = 0) -> pd.DataFrame:
        """Classify new graphs with a model of the run.

        Arguments:
            graphs: a list of PyG or NetworkX graphs, or the path of a file or folder of graphs
                as `motifair predict` reads them.
            agent: name of the agent; default the server's model.
            split: number of the split, from 0.

        Returns:
            One row for each graph: its predicted class, `label`, and the probabilities.

        >>> import motifair, networkx as nx
        >>> result = motifair.run(method="fedavg", agents=3, rounds=2, hidden=8, device="cpu")
        >>> ring = nx.cycle_graph(5)
        >>> nx.set_node_attributes(ring, 0, "label")
        >>> result.predict([ring, ring], agent="agent-01").columns.tolist()
        ['graph', 'label', 'probability 0', 'probability 1']
        """
        from motifair.export.of_result import predict_with

        return predict_with(self, graphs, agent, split)

    def _values(self) -> dict[str, list[float]]:
        rows = [s.metrics() for s in self.splits]
        return {m: [r[m] for r in rows] for m in METRICS}


def _possible(metric: str, interval: tuple[float, float], *, errors: bool) -> tuple[float, float]:
    """Clip an interval to the range of its metric; `errors` and their gains have none."""
    if metric in ("uploaded", "downloaded", "accuracy_slope", "pay_slope"):
        return interval
    if errors and metric.endswith(("accuracy", "gain")):
        return interval
    share = metric.endswith("accuracy") or metric.startswith(("rationality", "worse_off"))
    least = 0.0 if share else -1.0
    low, high = np.clip(interval, least, 1.0)
    return float(low), float(high)


def load_result(folder: str | Path) -> Result:
    """Load a finished run from the folder given as `out`, `--out` or to `Result.save`.

    Arguments:
        folder: the folder of a run, or of one of the runs of a comparison or sweep.

    Returns:
        The result, equal to the one that was written.

    >>> import motifair, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     small = {"agents": 3, "rounds": 2, "hidden": 8, "device": "cpu", "method": "fedavg"}
    ...     result = motifair.run(out=folder, **small)
    ...     load_result(folder).mean == result.mean
    True
    """
    folder = Path(folder)
    if not (folder / "config.json").exists():
        raise MotifairError(f"{folder} holds no run; give the folder that --out named.")
    if not (folder / "summary.json").exists():
        whole = folder.parent if (folder.parent / COMPARISON).exists() else folder
        raise MotifairError(
            f"The run in {folder} is not finished; continue with: motifair resume {whole}"
        )
    with damaged_files(folder):
        return _read_result(folder)


def _read_result(folder: Path) -> Result:
    config = Config.restored(read_json(folder / "config.json")["options"])
    summary = read_json(folder / "summary.json")
    # Read as text: numbers are parsed exactly later, and an agent may be named 1 or NA.
    agents, history = (
        pd.read_csv(folder / name, dtype=str, keep_default_na=False, na_values=[""])
        for name in ("agents.csv", "history.csv")
    )
    splits = [
        _read_split(
            split, agents[agents.split == str(k)], history[history.split == str(k)], config.metric
        )
        for k, split in enumerate(summary["splits"])
    ]
    environment = {
        k: summary[k] for k in ("versions", "layout", "inputs", "finished") if k in summary
    }
    return Result(config, tuple(splits), summary["seconds"], environment, Origin(folder))


def _read_split(
    summary: Mapping[str, Any], agents: pd.DataFrame, rows: pd.DataFrame, metric: str
) -> SplitResult:
    names: Sequence[str] = agents["agent"].tolist()
    rounds = len(rows) // len(names)
    history = History(names, rounds)
    for column in history.columns:
        values = rows[column].to_numpy(dtype=float, na_value=np.nan)
        history.columns[column] = values.reshape(rounds, len(names))
    history.global_accuracy = rows["global_accuracy"].to_numpy(dtype=float)[:: len(names)]
    return SplitResult(
        seed=summary["seed"],
        names=tuple(names),
        roles=tuple(agents["role"]) if "role" in agents else (),
        graphs=tuple(int(g) for g in agents["graphs"]),
        test_graphs=tuple(int(g) for g in agents["test_graphs"]),
        alone=agents["alone"].to_numpy(dtype=float),
        alone_again=agents["alone_again"].to_numpy(dtype=float),
        alone_one_class=agents["alone_one_class"].to_numpy(dtype=float),
        history=history,
        giving=_read_giving(summary.get("giving"), names),
        metric=metric,
    )


def _read_giving(summary: Mapping[str, Any] | None, names: Sequence[str]) -> Giving | None:
    if summary is None:
        return None
    agent = list(names).index(summary["agent"])
    return Giving(agent, tuple(summary["accuracy"]), tuple(summary["payoff"]))
