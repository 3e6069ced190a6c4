"""Checks of the installation: one row for each requirement, with a fix if it is not met.

Checks change nothing; the one temporary file in the cache folder is removed.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from pathlib import Path

from motifair.cores import usable_cores
from motifair.errors import MotifairError
from motifair.extras import install

OK, WARN, FAIL = "ok", "warn", "fail"
GIB = 2**30
LITTLE_DISK, NO_DISK = 2 * GIB, GIB // 10


@dataclass(frozen=True)
class Check:
    """Result of one check: its name, `ok`, `warn` or `fail`, what was found, and the fix."""

    check: str
    status: str
    found: str
    fix: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the row as JSON values."""
        return asdict(self)


def examine(data_dir: Path | None = None, ledger: str | None = None) -> list[Check]:
    """Run all checks; one that raises has failed."""
    checks: dict[str, Callable[[], Iterator[Check]]] = {
        "python": _python,
        "packages": _packages,
        "extras": _extras,
        "processor": _processor,
        "gpu": _gpu,
        "kernels": _kernels,
        "data": lambda: _data(data_dir),
        "cache": _cache,
        "disk": _disk,
        "clock": _clock,
    }
    if ledger is not None:
        checks["ledger"] = lambda: _ledger(ledger)
    results: list[Check] = []
    for name, check in checks.items():
        try:
            results += check()
        except MotifairError as error:
            what, fix = _split_fix(str(error))
            results.append(Check(name, FAIL, what, fix))
        except Exception as error:  # any exception is a result, too
            fix = "Install motifair again; if that does not help, report this."
            results.append(Check(name, FAIL, f"{type(error).__name__}: {error}", fix))
    return results


def _python() -> Iterator[Check]:
    version = platform.python_version()
    good = sys.version_info >= (3, 11)
    fix = "" if good else "Install Python 3.11 or newer."
    yield Check("python", OK if good else FAIL, f"{version} at {sys.executable}", fix)


def _requirements() -> Iterator[tuple[str, str, str | None, bool]]:
    """Yield extra ("" for none), requirement, installed version, and whether it satisfies it."""
    from packaging.requirements import Requirement

    for line in metadata.requires("motifair") or ():
        wanted = Requirement(line)
        extras = [e for e in _names_of_extras() if wanted.marker and _belongs(wanted.marker, e)]
        if wanted.name == "motifair" or (wanted.marker and not extras):
            continue  # an extra of motifair itself, or not for this system
        try:
            there = metadata.version(wanted.name)
        except metadata.PackageNotFoundError:
            there = None
        fits = there is not None and wanted.specifier.contains(there, prereleases=True)
        for extra in extras or [""]:
            yield extra, f"{wanted.name}{wanted.specifier}", there, fits


def _names_of_extras() -> list[str]:
    return metadata.metadata("motifair").get_all("Provides-Extra") or []


def _belongs(marker: object, extra: str) -> bool:
    evaluate: Callable[[dict[str, str]], bool] = marker.evaluate  # type: ignore[attr-defined]
    return evaluate({"extra": extra}) and not evaluate({"extra": ""})


def _packages() -> Iterator[Check]:
    """Compare installed with required packages: a row for each mismatch, or one for all."""
    try:
        needed = [row[1:] for row in _requirements() if not row[0]]
    except metadata.PackageNotFoundError:
        yield Check(
            "packages", WARN, "motifair runs from a source tree", "Install it: pip install ."
        )
        return
    for wanted, there, fits in needed:
        if not fits:
            found = f"{wanted} is required, {there or 'nothing'} is installed"
            yield Check("packages", FAIL, found, f"pip install '{wanted}'")
    if all(fits for *_, fits in needed):
        versions = [f"{_name(wanted)} {there}" for wanted, there, _ in needed]
        yield Check("packages", OK, ", ".join(versions))


def _extras() -> Iterator[Check]:
    """Check each extra; a missing one is no failure."""
    try:
        rows = list(_requirements())
    except metadata.PackageNotFoundError:
        return
    for extra in _names_of_extras():
        parts = [(wanted, there, fits) for e, wanted, there, fits in rows if e == extra]
        if extra == "dev" or not parts:
            continue
        fix = install(extra)
        old = [f"{wanted}, not {there}" for wanted, there, fits in parts if there and not fits]
        absent = [_name(wanted) for wanted, there, _ in parts if not there]
        if old:
            yield Check(f"extra {extra}", WARN, f"needs {', '.join(old)}", fix)
        elif absent:
            yield Check(
                f"extra {extra}", OK, f"not installed: {', '.join(absent)}", f"If needed: {fix}"
            )
        else:
            versions = [f"{_name(wanted)} {there}" for wanted, there, _ in parts]
            yield Check(f"extra {extra}", OK, ", ".join(versions))


def _name(wanted: str) -> str:
    return wanted.split("<")[0].split(">")[0].split("=")[0].split("!")[0].split("~")[0]


def _processor() -> Iterator[Check]:
    import torch

    found = f"{usable_cores()} of {os.cpu_count()} cores usable"
    found += f", {torch.get_num_threads()} threads in torch"
    if "SC_PHYS_PAGES" in os.sysconf_names:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        found += f", {memory / GIB:.0f} GiB memory"
    yield Check("processor", OK, found)


def _gpu() -> Iterator[Check]:
    import torch

    if not torch.cuda.is_available():
        device = Path("/dev/nvidia0").exists()
        build = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA"
        found = f"torch {torch.__version__} (built {build}) sees none"
        fix = "Install a torch built for the driver's CUDA version, see pytorch.org."
        found += "; training uses the processor"
        yield Check("gpu", WARN if device else OK, found, fix if device else "")
        return
    for k in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(k)
        name = torch.cuda.get_device_name(k)
        found = f"{name}, {free / GIB:.0f} of {total / GIB:.0f} GiB free"
        busy = free < total / 10
        fix = "Wait until it is free, or use --device cpu." if busy else ""
        yield Check("gpu", WARN if busy else OK, found, fix)
    try:
        yield Check("triton", OK, str(import_module("triton").__version__))
    except ImportError as error:
        yield Check("triton", FAIL, f"cannot be imported ({error})", "pip install triton")


def _kernels() -> Iterator[Check]:
    """Compare compiled kernels with plain torch, on whole numbers, which no device rounds."""
    import torch

    from motifair import kernels

    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        draw = torch.Generator().manual_seed(0)
        x, weight, bias = (
            torch.randint(-3, 4, shape, generator=draw).float().to(device)
            for shape in ((2, 40, 16), (2, 16, 64), (2, 64))
        )
        wanted = (torch.bmm(x, weight) + bias[:, None]).clamp(min=0)
        index = torch.randint(80, (200,), generator=draw).to(device)
        start = torch.arange(0, 201, 50).to(device)
        rows = wanted.reshape(80, 64)
        sums = rows[index].view(4, 50, 64).sum(dim=1)
        right = {
            "dense": torch.equal(kernels.dense(x, weight, bias, None, 1.0), wanted),
            "bag_sum": torch.equal(kernels.bag_sum(index, start, None, rows), sums),
        }
        wrong = [name for name, equal in right.items() if not equal]
        if wrong:
            found = f"{', '.join(wrong)} on {device} differ from plain torch"
            fix = "Install numba and triton again, and empty NUMBA_CACHE_DIR or __pycache__."
            yield Check("kernels", FAIL, found, fix)
        else:
            yield Check("kernels", OK, f"{', '.join(right)} on {device} agree with plain torch")


def _data(data_dir: Path | None) -> Iterator[Check]:
    """Read every dataset in the data folder."""
    from motifair.graphs.tu import DATA_VARIABLE, data_folder, load_tu, locate

    folder = data_folder(data_dir)
    if folder is None:
        fix = f"To use local copies, name a folder with --data-dir or {DATA_VARIABLE}."
        yield Check("data", OK, "no folder is set; datasets are downloaded on demand", fix)
        return
    read, broken = [], []
    for name in _datasets(folder):
        try:
            path = locate(name, folder)
            if path is not None:
                load_tu(name, folder)
                read.append(name)
        except MotifairError as error:
            broken.append(Check(f"data {name}", FAIL, *_split_fix(str(error))))
    if read or not broken:
        fix = "" if read else f"Put zips or folders in the TU format into {folder}."
        yield Check(
            "data", OK if read else WARN, f"{folder}: {', '.join(read) or 'no dataset'}", fix
        )
    yield from broken


def _datasets(folder: Path) -> list[str]:
    names = [p.stem for p in folder.glob("*.zip")]
    for pattern in ("*/*_A.txt", "*/raw/*_A.txt"):
        names += [p.relative_to(folder).parts[0] for p in folder.glob(pattern)]
    return sorted(set(names))


def _cache() -> Iterator[Check]:
    from motifair.files import cache_folder

    try:
        folder = cache_folder("")
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"motifair")
        yield Check("cache", OK, str(folder))
    except OSError as error:
        where = error.filename or "the cache folder"
        fix = "Set MOTIFAIR_CACHE to a writable folder."
        yield Check("cache", FAIL, f"{where} cannot be written ({error.strerror})", fix)


def _disk() -> Iterator[Check]:
    free = shutil.disk_usage(Path.cwd()).free
    status = FAIL if free < NO_DISK else WARN if free < LITTLE_DISK else OK
    fix = "" if status == OK else "Free some space, or use --out on another disk."
    yield Check("disk", status, f"{free / GIB:.1f} GiB free in {Path.cwd()}", fix)


def _clock() -> Iterator[Check]:
    """Check that the clock is not behind motifair's files: certificates would be invalid."""
    behind = time.time() < Path(__file__).stat().st_mtime - 86400
    now = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    fix = "Set the clock: certificates of a federation depend on it." if behind else ""
    found = f"{now}, earlier than motifair's own files" if behind else now
    yield Check("clock", WARN if behind else OK, found, fix)


def _ledger(where: str) -> Iterator[Check]:
    """Open a ledger for reading, which checks its schema."""
    from motifair.consortium.store.ledger import open_ledger

    with open_ledger(where, write=False) as ledger:
        runs = ledger.runs()
        found = f"{ledger.name}: reachable, schema of this version, {len(runs)} runs"
    yield Check("ledger", OK, found)


def _split_fix(sentence: str) -> tuple[str, str]:
    """Split an error message into what is wrong and the fix.

    >>> _split_fix("MOTIFAIR_DATA=x is not a folder; point it to an existing one.")
    ('MOTIFAIR_DATA=x is not a folder', 'Point it to an existing one.')
    """
    for mark in ("; ", ". "):
        what, separator, fix = sentence.partition(mark)
        if separator:
            return what, fix[0].upper() + fix[1:]
    return sentence, "See there."
