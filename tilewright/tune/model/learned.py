"""A Gaussian process of the errors of the machine model, learned from measurements.

The model predicts the logarithm of a time from counts. Its error is learned as a smooth function of these counts and of
the knobs. Far from all measurements, the prediction is unchanged, with a large uncertainty. Length scales and noise
maximise the likelihood on a small grid (Rasmussen and Williams, *Gaussian Processes for Machine Learning*, chapter 5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_LENGTH_SCALES = (0.35, 0.7, 1.4)
_NOISE_VARIANCES = (0.01, 0.04, 0.16)
_ERROR_SCALE = 1.0
"""The scale of errors (sums of squares of logarithms) at which predictions lose weight."""
_MODEL_DEVIATION = 0.35
"""The expected standard deviation of the model's error, in logarithms."""


@dataclass(frozen=True)
class Estimate:
    """Expected logarithms of seconds, and their standard deviations."""

    mean: np.ndarray
    deviation: np.ndarray


class Corrections:
    """Learns the errors of predictions; `estimate` adds the learned correction."""

    def __init__(self) -> None:
        self._rows = np.zeros((0, 0))
        self._centre = np.zeros(0)
        self._scale = np.ones(0)
        self._whitening = np.zeros((0, 0))
        self._solved = np.zeros(0)
        self._mean = 0.0
        self._middle, self._trust = 0.0, 1.0
        self._length, self._variance = 1.0, _MODEL_DEVIATION**2

    def fit(self, rows: np.ndarray, predicted: np.ndarray, measured: np.ndarray) -> None:
        """Learn from measurements: their rows of features, and the predicted and measured seconds of each."""
        self._middle = float(np.median(np.log(predicted)))
        expected = np.clip(np.log(predicted) - self._middle, -2.0, 2.0)
        found = np.log(measured) - np.median(np.log(measured))
        # If the predictions do not distinguish the measured kernels, they should not guide the search.
        self._trust = float(np.clip((expected @ found + _ERROR_SCALE) / (expected @ expected + _ERROR_SCALE), 0.0, 1.2))
        errors = np.log(measured) - self._trusted(np.log(predicted))
        self._centre = rows.mean(axis=0)
        self._scale = np.maximum(rows.std(axis=0), 0.05)
        self._rows = (rows - self._centre) / self._scale
        # A few outliers, of kernels that spill or fail, must not distort the rest.
        self._mean = float(np.median(errors))
        centred = np.clip(errors - self._mean, -2.0, 2.0)
        spread = max(float(centred.std()), 0.05)
        best = -np.inf
        distances = _distances(self._rows, self._rows) / np.sqrt(rows.shape[1])
        for length in _LENGTH_SCALES:
            values, vectors = np.linalg.eigh(_matern(distances / length))
            turned = vectors.T @ (centred / spread)
            for noise in _NOISE_VARIANCES:
                lifted = np.maximum(values, 0) + noise
                likelihood = -0.5 * float((turned**2 / lifted).sum() + np.log(lifted).sum())
                if likelihood > best:
                    best, self._length, self._variance = likelihood, length, spread**2
                    self._solved = vectors @ (turned / lifted) * spread
                    self._whitening = vectors / np.sqrt(lifted)

    def _trusted(self, expected: np.ndarray) -> np.ndarray:
        """Return logarithms of predicted seconds, shrunk towards their mean if predictions proved unreliable."""
        made: np.ndarray = self._middle + self._trust * (expected - self._middle)
        return made

    def estimate(self, rows: np.ndarray, predicted: np.ndarray) -> Estimate:
        """Estimate the logarithms of seconds, from rows of features and predicted seconds."""
        plain = self._trusted(np.log(predicted))
        if not len(self._rows):
            return Estimate(plain, np.full(len(rows), _MODEL_DEVIATION))
        scaled = (rows - self._centre) / self._scale
        distances = _distances(scaled, self._rows) / (self._length * np.sqrt(rows.shape[1]))
        kernel = _matern(distances)
        mean = kernel @ self._solved
        left = np.maximum(1.0 - ((kernel @ self._whitening) ** 2).sum(axis=1), 1e-6)
        return Estimate(plain + self._mean + mean, np.sqrt(left * self._variance))


def _distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None, :] - 2 * a @ b.T
    made: np.ndarray = np.sqrt(np.maximum(squares, 0))
    return made


def _matern(r: np.ndarray) -> np.ndarray:
    """The Matérn kernel of smoothness 3/2."""
    scaled = np.sqrt(3.0) * r
    made: np.ndarray = (1 + scaled) * np.exp(-scaled)
    return made
