"""The kernels for CPUs: numba loops over numpy arrays, which release the GIL."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

WORD = 64  # dropout bits in a word


@numba.njit(nogil=True, cache=True)
def rectify(x: Any, bias: Any, keep: Any, drops: bool, scale: Any) -> None:
    """Apply bias, ReLU, scale and dropout in place; see `kernels.rectify_`."""
    rows, n, hidden = x.shape
    zero = x.dtype.type(0)
    for r in range(rows):
        for i in range(n):
            if not drops:
                for h in range(hidden):
                    x[r, i, h] = max(x[r, i, h] + bias[r, h], zero) * scale
            elif hidden % WORD == 0:  # a word belongs to one node: the loop can be vectorised
                for first in range(0, hidden, WORD):
                    bits = keep[r, (i * hidden + first) // WORD]
                    for k in range(WORD):
                        v = x[r, i, first + k] + bias[r, first + k]
                        kept = v > 0 and (bits >> k) & 1 != 0
                        x[r, i, first + k] = v * scale if kept else zero
            else:
                for h in range(hidden):
                    unit = i * hidden + h
                    v = x[r, i, h] + bias[r, h]
                    kept = v > 0 and (keep[r, unit // WORD] >> (unit % WORD)) & 1 != 0
                    x[r, i, h] = v * scale if kept else zero


@numba.njit(nogil=True, cache=True)
def rectify_backward(gradient: Any, y: Any, scale: Any, out: Any, total: Any) -> None:
    """Mask the gradient where y is not positive, and sum it; see `kernels.rectify_backward`."""
    rows, n, hidden = y.shape
    zero = y.dtype.type(0)
    part = np.empty(hidden, y.dtype)
    for r in range(rows):
        total[r] = 0
        # Sums of blocks, then their sum: one long sum in single precision loses digits.
        for start in range(0, n, WORD):
            part[:] = 0
            for i in range(start, min(start + WORD, n)):
                for h in range(hidden):
                    v = gradient[r, i, h] * scale if y[r, i, h] > 0 else zero
                    out[r, i, h] = v
                    part[h] += v
            for h in range(hidden):
                total[r, h] += part[h]


@numba.njit(nogil=True, cache=True)
def send(x: Any, labels: Any, source: Any, label: Any, out: Any) -> None:
    """Compute messages along edges; see `kernels.send`."""
    hidden = x.shape[1]
    zero = x.dtype.type(0)
    for p in range(len(out)):
        s, k = source[p], label[p]
        if s < 0:
            out[p] = zero
            continue
        for h in range(hidden):
            out[p, h] = max(x[s, h] + labels[k, h], zero)


@numba.njit(nogil=True, cache=True)
def send_backward(
    gradient: Any, message: Any, own: Any, label: Any, first_sent: Any, sent: Any,
    agents: int, of_x: Any, of_labels: Any,
) -> None:  # fmt: skip
    """Mask the gradient of messages, and sum it by source and label; see `kernels.send_backward`.

    Input j sent the messages `sent[first_sent[j]:first_sent[j+1]]`.
    """
    inputs, hidden, table = len(of_x) // agents, of_x.shape[1], len(of_labels) // agents
    zero = of_x.dtype.type(0)
    part = np.empty((table, hidden), of_x.dtype)
    of_labels[:] = zero
    for r in range(agents):
        # Sums of blocks, then their sum: one long sum in single precision loses digits.
        for first in range(0, inputs, WORD):
            part[:] = zero
            for j in range(r * inputs + first, r * inputs + min(first + WORD, inputs)):
                for h in range(hidden):
                    of_x[j, h] = own[j, h]
                for e in range(first_sent[j], first_sent[j + 1]):
                    p = sent[e]
                    k = label[p] - r * table
                    for h in range(hidden):
                        v = gradient[p, h] if message[p, h] > 0 else zero
                        of_x[j, h] += v
                        part[k, h] += v
            of_labels[r * table : (r + 1) * table] += part


@numba.njit(nogil=True, cache=True)
def adam(
    weights: Any, gradient: Any, first: Any, second: Any, steps: Any, moving: Any,
    learning_rate: float, weight_decay: float, beta1: float, beta2: float, epsilon: float,
) -> None:  # fmt: skip
    """Take one step in place in the moving rows; see `kernels.adam_`."""
    number = weights.dtype.type
    decay, old1, old2 = number(weight_decay), number(beta1), number(beta2)
    new1, new2, least = number(1 - beta1), number(1 - beta2), number(epsilon)
    for r in range(len(weights)):
        if not moving[r]:
            continue
        steps[r] += 1
        size = number(learning_rate / (1 - beta1 ** steps[r]))
        scale = number(1 / np.sqrt(1 - beta2 ** steps[r]))
        for d in range(weights.shape[1]):
            g = gradient[r, d] + decay * weights[r, d]
            m = old1 * first[r, d] + new1 * g
            v = old2 * second[r, d] + new2 * g * g
            first[r, d], second[r, d] = m, v
            weights[r, d] -= size * m / (np.sqrt(v) * scale + least)


@numba.njit(nogil=True, cache=True)
def random_words(keys: Any, out: Any) -> None:
    """Fill a row of random words for each key."""
    for k in range(out.shape[0]):
        for i in range(out.shape[1]):
            out[k, i] = mix(keys[k], np.uint64(i))


@numba.vectorize(cache=True)
def mix(key: Any, counter: Any) -> Any:
    """Return the word of SplitMix64 at a counter."""
    x = key + (counter + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
