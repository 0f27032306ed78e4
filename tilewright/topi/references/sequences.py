"""Networks and transforms of sequences, in NumPy, written from their definitions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x))"""
    return np.asarray(1 / (1 + np.exp(-x)))


def lstm_python(
    Xs: np.ndarray,
    Wi: np.ndarray,
    Wh: np.ndarray,
    Bi: np.ndarray | None = None,
    Bh: np.ndarray | None = None,
    h_init: np.ndarray | None = None,
    c_init: np.ndarray | None = None,
    proj: np.ndarray | None = None,
    p_i: np.ndarray | None = None,
    p_f: np.ndarray | None = None,
    p_o: np.ndarray | None = None,
    f_act: Function = sigmoid,
    g_act: Function = np.tanh,
    h_act: Function = np.tanh,
    reverse: bool = False,
    weight_layout: str = "IFGO",
) -> list[np.ndarray]:
    """The hidden and the cell states after each step of a long short-term memory"""
    size = Wi.shape[0] // 4
    given = [0.0 if a is None else a.astype("float64") for a in (Bi, Bh, h_init, c_init, p_i, p_f, p_o)]
    bias, more, h0, c0, see_i, see_f, see_o = given
    h = np.zeros((Xs.shape[1], Wh.shape[1])) + h0
    c = np.zeros((Xs.shape[1], size)) + c0
    hidden, cells = [], []
    for x in Xs[::-1] if reverse else Xs:
        sums = x.astype("float64") @ Wi.T + h @ Wh.T + bias + more
        part = dict(zip(weight_layout, np.split(sums, 4, 1), strict=True))
        kept = f_act(part["F"] + see_f * c)
        c = kept * c + f_act(part["I"] + see_i * c) * g_act(part["G"])
        h = f_act(part["O"] + see_o * c) * h_act(c)
        h = h if proj is None else h @ proj.T
        hidden.append(h)
        cells.append(c)
    return [np.stack(each).astype(Xs.dtype) for each in (hidden, cells)]


def dft_python(re: np.ndarray, im: np.ndarray, inverse: bool = False) -> list[np.ndarray]:
    """The real and the imaginary parts of the discrete Fourier transform of rows"""
    found = (np.fft.ifft if inverse else np.fft.fft)(re + 1j * im)
    return [found.real.astype(re.dtype), found.imag.astype(re.dtype)]


def stft_python(
    data: np.ndarray, n_fft: int, hop: int, size: int, window: np.ndarray, normalized: bool, onesided: bool
) -> np.ndarray:
    """Windows that slide over signals (batch, length), transformed: (batch, frequencies, windows, 2)"""
    rows = np.arange(n_fft // 2 + 1 if onesided else n_fft)
    waves = np.exp(-2j * np.pi * np.outer(rows, np.arange(size)) / size)
    places = range(0, data.shape[1] - size + 1, hop)
    found = np.stack([(data[:, p : p + size] * window) @ waves.T for p in places], 2)
    found = found / np.sqrt(n_fft) if normalized else found
    return np.stack([found.real, found.imag], -1).astype(data.dtype)


def fifo_buffer_python(data: np.ndarray, buffer: np.ndarray, axis: int) -> np.ndarray:
    """The last elements of a buffer and the appended elements"""
    joined = np.concatenate([buffer, data], axis)
    return np.take(joined, range(data.shape[axis], joined.shape[axis]), axis)


def embed_grad_python(table: np.ndarray, indices: np.ndarray, grad: np.ndarray) -> np.ndarray:
    """The sums of the gradients of rows by their places in the table"""
    out = np.zeros_like(table)
    np.add.at(out, indices, grad)
    return out
