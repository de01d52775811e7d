"""Batched training: Adam, learning rates and early stopping of many probes with stacked weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..lazy import torch

BETAS = (0.9, 0.999)
EPSILON = 1e-8
SMALLEST = 1e-8  # minimum decrease of a learning rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """
    When the learning rate of a probe falls, and when its training ends, by its validation losses.

    Parameters
    ----------
    rate : float
        Initial learning rate.
    factor : float
        Of the learning rate, after more than `patience` validations without an improvement.
    patience : int
    threshold : float
        Smallest improvement for the learning rate; relative to the loss where `relative`.
    relative : bool
    least_rate : float
        Learning rate below which training ends.
    gain : float
        Smallest improvement for the weights to be kept.
    stop_after : int
        Validations without such an improvement after which training ends.
    clip : float, optional
        Maximum norm of the gradient of a probe.
    amsgrad : bool
        Whether Adam divides by the largest second moment so far.
    """

    rate: float
    factor: float
    patience: int
    threshold: float
    relative: bool = False
    least_rate: float = 0.0
    gain: float = 0.0
    stop_after: int
    clip: float | None = None
    amsgrad: bool = False


class BatchedTrainer:
    """
    Stacked weights of probes with their optimizer state; a probe leaves once it is dropped.

    Parameters
    ----------
    weights : Tensor of shape (probes, ...)
        Initial weights.
    schedule : Schedule

    Attributes
    ----------
    weights : Tensor of shape (active probes, ...)
    active : ndarray of int
        Indices of the probes that are still there.
    going : ndarray of bool of shape (probes,)
        Whether training goes on.
    rate, loss : ndarray of shape (probes,)
        Learning rate, and the best validation loss.
    best, last : ndarray of int of shape (probes,)
        Step of the best validation, and of the last.
    best_weights : Tensor of shape (probes, ...)
    """

    def __init__(self, weights: torch.Tensor, schedule: Schedule) -> None:
        count = len(weights)
        self.weights, self.schedule = weights.clone(), schedule
        self._moments = [torch.zeros_like(weights) for _ in range(3 if schedule.amsgrad else 2)]
        self._updates = 0
        self.active, self.going = np.arange(count), np.ones(count, dtype=bool)
        self.rate = np.full(count, schedule.rate)
        self.loss, self._level = np.full((2, count), np.inf)
        self.best, self.last, self._missed, self._waited = np.zeros((4, count), dtype=int)
        self.best_weights = weights.clone()

    def step(self, gradient: torch.Tensor) -> None:
        """Update the weights with Adam, each probe with its own learning rate."""
        if self.schedule.clip is not None:
            share = self.schedule.clip / (gradient.flatten(1).norm(dim=1) + 1e-6)
            # Checking whether any gradient needs clipping would synchronize the accelerator.
            if gradient.device.type != "cpu" or bool((share < 1).any()):
                gradient = gradient * share.clamp(max=1.0).view(-1, *[1] * (gradient.ndim - 1))
        self._updates += 1
        if self.schedule.amsgrad:
            self._fused(gradient)
            return
        # Maps of structural probes are small: each operation is one for all, whatever their rates.
        first, second = self._moments
        first.lerp_(gradient, 1 - BETAS[0])
        second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        under = second.sqrt().div_((1 - BETAS[1] ** self._updates) ** 0.5).add_(EPSILON)
        pace = torch.from_numpy(self.rate[self.active]).to(first).view(-1, *[1] * (gradient.ndim - 1))
        self.weights.sub_(first / under * (pace / (1 - BETAS[0] ** self._updates)))

    def _fused(self, gradient: torch.Tensor) -> None:
        """Update the weights with AMSGrad, by one fused call for all probes of a learning rate."""
        from torch.optim.adam import adam

        rates = self.rate[self.active]
        for rate in np.unique(rates):
            probes = np.flatnonzero(rates == rate).tolist()
            weights, gradients, means, squares, largest = (
                [state[probe] for probe in probes]
                for state in (self.weights.detach(), gradient, *self._moments)
            )
            adam(
                weights,
                gradients,
                means,
                squares,
                largest,
                [torch.tensor(self._updates - 1.0, device=gradient.device) for _ in probes],
                foreach=False,
                fused=True,
                amsgrad=True,
                beta1=BETAS[0],
                beta2=BETAS[1],
                lr=float(rate),
                weight_decay=0.0,
                eps=EPSILON,
                maximize=False,
            )

    def record(self, losses: np.ndarray, step: int) -> None:
        """Keep the weights of active probes that improve, lower learning rates, and end training."""
        schedule, active = self.schedule, self.active
        going = self.going[active]
        better = going & (losses < self.loss[active] - schedule.gain)
        improved = torch.from_numpy(active[better]).to(self.weights.device)
        rows = torch.from_numpy(np.flatnonzero(better)).to(self.weights.device)
        self.best_weights[improved] = self.weights.detach()[rows]
        self.loss[active[better]], self.best[active[better]] = losses[better], step
        self.last[active[going]] = step
        self._missed[active] = np.where(better, 0, self._missed[active] + 1)
        level = self._level[active]
        reach = level * (1 - schedule.threshold) if schedule.relative else level - schedule.threshold
        gained = losses < reach
        self._level[active] = np.where(gained, losses, level)
        self._waited[active] = np.where(gained, 0, self._waited[active] + 1)
        slower = active[self._waited[active] > schedule.patience]
        lower = self.rate[slower] * schedule.factor
        self.rate[slower] = np.where(self.rate[slower] - lower > SMALLEST, lower, self.rate[slower])
        self._waited[slower] = 0
        self.going &= (self._missed <= schedule.stop_after) & (self.rate >= schedule.least_rate)

    def drop(self, stays: np.ndarray) -> None:
        """Remove the active probes that do not stay, by their places among the active ones."""
        if len(stays) == len(self.active):
            return
        rows = torch.from_numpy(stays).to(self.weights.device)
        self.active, self.weights = self.active[stays], self.weights.detach()[rows]
        self._moments = [moment[rows] for moment in self._moments]
