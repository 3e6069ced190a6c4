"""Differential privacy of an agent's uploads: clipping, Gaussian noise, accounting.

The protected unit is all data of one member. If all its graphs are replaced by others, a clipped
vector moves by at most twice its bound C; Gaussian noise of z·C in every component hides that, as
strongly as `guarantee` states. docs/privacy.md says what this is worth and what it does not cover.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motifair.consortium.validation import MOST_PROTOTYPE
from motifair.consortium.wire import FINISH, JOIN, TRAIN, Download, Floats, Upload
from motifair.errors import MotifairError, nearest
from motifair.extras import require
from motifair.files import write_atomic
from motifair.methods import Method

ACCOUNTANT = "opacus"
UNIT = "all graphs of one member, replaced by any others"
IN_THE_CLEAR = ("motif keys", "number of training graphs", "final accuracy", "presence and timing")
ROUNDING = 1e-6  # vectors travel in float32
NOISE_KEY = "noise.key"
_KEY_BYTES = 32
_ORDERS = (1 + np.logspace(-6, 6, 1201)).tolist()  # of Rényi divergence; each gives a bound


@dataclass(frozen=True)
class Privacy:
    """Section `[privacy]` of the terms; options that are None are off.

    `clip_update` and `clip_prototype` bound the L2 norm of an update and of all prototypes of an
    upload together. `noise_update` and `noise_prototype` are the standard deviations of the noise
    in each component, as multiples of these bounds. `delta` is the δ for which ε is stated.
    """

    clip_update: float | None = None
    noise_update: float | None = None
    clip_prototype: float | None = None
    noise_prototype: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        for option in fields(self):
            _check_number(option.name, getattr(self, option.name))
        for what in ("update", "prototype"):
            if getattr(self, f"noise_{what}") and not getattr(self, f"clip_{what}"):
                raise MotifairError(
                    f"noise_{what} is a multiple of clip_{what}; set clip_{what} in [privacy], too."
                )
        if self.noisy and self.delta is None:
            raise MotifairError(
                "Noise needs a delta, for which epsilon is stated; set it in [privacy], as 1e-5."
            )
        if self.delta is not None and not self.noisy:
            raise MotifairError(
                "delta has no effect without noise; set noise_update in [privacy], or remove it."
            )

    @property
    def noisy(self) -> bool:
        """Whether noise is added to anything."""
        return self.noise_update is not None or self.noise_prototype is not None


def make_privacy(given: Any) -> Privacy:
    """Check section `[privacy]`; None (no such section) means no protection."""
    if given is None:
        return Privacy()
    if not isinstance(given, Mapping):
        raise MotifairError("[privacy] of federation.toml must be a section.")
    names = [option.name for option in fields(Privacy)]
    for name in given:
        if name not in names:
            raise MotifairError(f"[privacy] has no '{name}'. {nearest(name, names)}")
    if not given:
        raise MotifairError("[privacy] protects nothing; set clip_update in it, or remove it.")
    return Privacy(**given)


def check_privacy(
    privacy: Privacy,
    method: Method,
    size: int,
    hidden: int,
    max_norm: float,
    *,
    moments: bool = False,
) -> None:
    """Refuse settings that would have no effect, or protect nothing, for a method whose updates
    have `size` components and whose prototypes have `hidden`; `moments` is whether second moments
    are sent, too.
    """
    if privacy == Privacy():
        return
    name, sends = method.config.method, method.uses_prototypes
    if method.uses_gradients:
        raise MotifairError(
            "alignment_of=gradient and votes of peers (alignment_against) upload raw gradients, "
            "which [privacy] does not protect; use alignment_of=update and alignment_against=all, "
            "or remove [privacy]."
        )
    _check_clear(privacy, method, moments=moments)
    if privacy.clip_prototype and not sends:
        raise MotifairError(
            f"{name} sends no prototypes with these options; remove clip_prototype."
        )
    if privacy.clip_update and not size:
        raise MotifairError(f"{name} sends no updates; remove clip_update.")
    if privacy.noisy and sends and not privacy.noise_prototype:
        raise MotifairError(
            "Prototypes would be sent without noise and reveal what noise_update hides; also set "
            "clip_prototype and noise_prototype, or prototype_weight = 0 in [training]."
        )
    if privacy.noisy and size and not privacy.noise_update:
        raise MotifairError(
            "Updates would be sent without noise and reveal what noise_prototype hides; also set "
            "clip_update and noise_update."
        )
    p = privacy
    fix = "raise max_norm in [federation], or lower clip_update"
    _check_norm(p.clip_update, p.noise_update, size, max_norm, fix)
    fix = "lower clip_prototype"
    _check_norm(p.clip_prototype, p.noise_prototype, hidden, MOST_PROTOTYPE, fix)
    if privacy.noisy:
        require("privacy", "The accountant of noise in [privacy]", ACCOUNTANT)


def check_task(task: Download, rounds: int, newest: int) -> None:
    """Refuse a task that `guarantee` does not count: it counts one answer a round, in order.

    `newest` is the last round answered in this run, -1 if none.
    """
    ends = {JOIN: (0, 0), TRAIN: (1, rounds), FINISH: (rounds + 1, rounds + 1)}
    first, last = ends[task.task]
    if not first <= task.round <= last or (task.task != JOIN and task.round < newest):
        raise MotifairError(
            f"'{task.task}' for round {task.round} would be one answer more than the terms allow"
        )


def reveal(upload: Upload, privacy: Privacy, secret: bytes) -> Upload:
    """Return an upload as it is sent: arrays protected and, with noise, without loss and norm of
    the gradient, which the server does not use.
    """
    key = round_key(secret, upload.run, upload.round)
    update, prototypes = protect(upload.update, upload.prototypes, privacy, key)
    revealed = replace(upload, update=update, prototypes=prototypes)
    return replace(revealed, loss=0.0, gradient_norm=0.0) if privacy.noisy else revealed


def protect(
    update: Floats | None, prototypes: Floats | None, privacy: Privacy, key: bytes
) -> tuple[Floats | None, Floats | None]:
    """Clip, then add noise, in float64; None stays None. `key` is the key of the round."""
    p = privacy
    return (
        _protected(update, p.clip_update, p.noise_update, key, "update"),
        _protected(prototypes, p.clip_prototype, p.noise_prototype, key, "prototypes"),
    )


def longest(clip: float | None, noise: float | None, size: int) -> float:
    """Return the largest length of a vector of `size` components after `protect`.

    >>> longest(None, None, 10), round(longest(0.5, None, 10), 5)
    (inf, 0.5)
    """
    if not clip:
        return math.inf
    tail = 40  # chi-squared exceeds this with probability e^-40 (Laurent and Massart)
    spread = math.sqrt(size + 2 * math.sqrt(size * tail) + 2 * tail)
    return clip * (1 + (noise or 0.0) * spread) * (1 + ROUNDING)


def round_key(secret: bytes, run: str, round: int) -> bytes:
    """Return the key of one round's noise, derived from a member's secret."""
    return hmac.digest(secret, json.dumps([run, round]).encode(), "sha256")


def noise_secret(folder: Path) -> bytes:
    """Return the secret of a member's noise in one run, drawn once and kept in `folder`.

    It is not derived from the member's key or seed: the operator who made the startup kit has seen
    the key, and a seed of 31 bits can be guessed.
    """
    path = folder / NOISE_KEY
    folder.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        write_atomic(path, _write_secret)
    secret = path.read_bytes()
    if len(secret) != _KEY_BYTES:
        raise MotifairError(f"{path} is damaged; restore it from a backup, or start a new run.")
    return secret


def gaussian(key: bytes, count: int) -> NDArray[np.float64]:
    """Return standard normal numbers `(count,)` from a key: SHAKE-256, then Box and Muller.

    >>> gaussian(b"key", 3).round(3).tolist()
    [0.971, -0.453, 1.464]
    """
    pairs = -(-count // 2)
    words = np.frombuffer(hashlib.shake_256(key).digest(16 * pairs), "<u8").reshape(2, pairs)
    uniform = ((words >> 11) + 1.0) / 2**53  # above 0, at most 1
    length = np.sqrt(-2 * np.log(uniform[0]))
    angle = 2 * np.pi * uniform[1]
    return np.concatenate([length * np.cos(angle), length * np.sin(angle)])[:count]


def guarantee(privacy: Privacy, rounds: int) -> dict[str, Any]:
    """Return the privacy guarantee (ε, δ) for all updates and prototypes of a run: any observation
    of them is at most e^ε times as probable, plus δ, as with all graphs of a member replaced.

    Without noise there is no guarantee: ε is infinite.
    """
    about: dict[str, Any] = {"epsilon": math.inf, "delta": None, "accountant": None}
    if privacy.noisy:
        about = {
            "epsilon": _epsilon(privacy, rounds),
            "delta": privacy.delta,
            "accountant": f"{ACCOUNTANT} {version(ACCOUNTANT)}, RDP",
        }
    return {**about, "rounds": rounds, "unit": UNIT, "in_the_clear": list(IN_THE_CLEAR)}


def _epsilon(privacy: Privacy, rounds: int) -> float:
    """Compose one Gaussian mechanism per round and kind, and that of prototypes sent on joining."""
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    for noise, times in ((privacy.noise_update, rounds), (privacy.noise_prototype, rounds + 1)):
        if noise is None:
            continue
        for _ in range(times):
            # Replacing all data moves a vector by up to 2C, so noise z·C is z/2 times that.
            accountant.step(noise_multiplier=noise / 2, sample_rate=1.0)
    return float(accountant.get_epsilon(privacy.delta, alphas=_ORDERS))


def _protected(
    array: Floats | None, clip: float | None, noise: float | None, key: bytes, what: str
) -> Floats | None:
    if array is None or clip is None:
        return array
    exact = array.astype(np.float64)
    if noise and not np.isfinite(exact).all():
        exact = np.zeros_like(exact)  # a failed training would reveal something, too
    length = float(np.linalg.norm(exact))
    if length > clip:
        exact *= clip / length
    if noise:
        # Noise depends on the vector: the same vector gets the same noise, so that an answer can
        # be repeated; another one gets other noise, so that they cannot be subtracted.
        noise_key = hmac.digest(key, what.encode() + b"\0" + exact.tobytes(), "sha256")
        exact += noise * clip * gaussian(noise_key, exact.size).reshape(exact.shape)
    return exact.astype(np.float32)


def _check_number(name: str, value: Any) -> None:
    if value is None:
        return
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:
        raise MotifairError(
            f"{name} must be a number greater than 0, not {value}; to turn it off, remove it from "
            "[privacy]."
        )
    if name == "delta" and value > 0.01:
        raise MotifairError(
            f"delta = {value:g} would guarantee next to nothing; set it to 0.01 or less."
        )


def _check_clear(privacy: Privacy, method: Method, *, moments: bool) -> None:
    """Refuse noise for a method that also sends what noise cannot protect."""
    sends, instead = [], []
    if method.believes:
        sends.append("size=believed sends fingerprints and the wiring of graphs")
        instead.append('size = "claimed"')
    if method.trial_rounds:
        sends.append("trial_rounds sends a model trained alone, and what peers say of it")
        instead.append("trial_rounds = 0")
    if moments:
        sends.append(f"moments={method.config.moments} sends second moments of gradients")
        instead.append('moments = "own"')
    if privacy.noisy and sends:
        raise MotifairError(
            f"{' and '.join(sends)}, without noise; set {' and '.join(instead)} in [training], or "
            "remove noise from [privacy]."
        )


def _check_norm(clip: float | None, noise: float | None, size: int, most: float, fix: str) -> None:
    """Refuse noise so strong that the server would reject a vector of `size` components."""
    if noise and longest(clip, noise, size) > most:
        raise MotifairError(
            f"{size} components with this noise are up to {longest(clip, noise, size):.3g} long, "
            f"but the server accepts {most:g}; {fix}."
        )


def _write_secret(path: Path) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secrets.token_bytes(_KEY_BYTES))
