"""Adam with lazy updates of the word and label tables, its step size, and adaptive gradient clipping."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class Optimizer:
    """Adam for the dense weights, and SparseAdam for tables of which a batch touches few rows."""

    def __init__(self, network: nn.Module, sparse: Iterable[Tensor], learning_rate: float) -> None:
        lazy = {id(weight): weight for weight in sparse if weight.requires_grad}
        dense = [weight for weight in network.parameters() if weight.requires_grad and id(weight) not in lazy]
        self.learning_rate = learning_rate
        self.weights = [*dense, *lazy.values()]
        self.parts: list[torch.optim.Optimizer] = [torch.optim.Adam(dense, lr=learning_rate)]
        if lazy:
            self.parts.append(torch.optim.SparseAdam(list(lazy.values()), lr=learning_rate))
        self.mean_norm = 0.0

    def step(self, scale: float, clip: float) -> None:
        """Update the weights with a fraction of the learning rate, and forget the gradients."""
        if clip > 0:
            self._clip(clip)
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = self.learning_rate * scale
            part.step()
            part.zero_grad(set_to_none=True)

    def _clip(self, factor: float) -> None:
        gradients = []
        for weight in self.weights:
            if weight.grad is not None and weight.grad.is_sparse:
                weight.grad = weight.grad.coalesce()
            if weight.grad is not None:
                gradients.append(weight.grad._values() if weight.grad.is_sparse else weight.grad)
        norm = float(torch.stack([gradient.norm() for gradient in gradients]).norm())
        limit = factor * self.mean_norm
        if self.mean_norm > 0 and norm > limit:
            for gradient in gradients:
                gradient.mul_(limit / norm)
            norm = limit
        self.mean_norm = norm if self.mean_norm == 0 else 0.95 * self.mean_norm + 0.05 * norm

    def tensors(self) -> dict[str, Tensor]:
        """Give the whole state as named tensors, for a checkpoint."""
        state = {"mean_norm": torch.tensor(self.mean_norm, dtype=torch.float64)}
        for p, part in enumerate(self.parts):
            for i, values in part.state_dict()["state"].items():
                for name, value in values.items():
                    state[f"{p}.{i}.{name}"] = torch.as_tensor(value)
        return state

    def load_tensors(self, state: dict[str, Tensor]) -> None:
        """Take back what `tensors` gave."""
        self.mean_norm = float(state["mean_norm"])
        for p, part in enumerate(self.parts):
            whole = part.state_dict()
            for key, value in state.items():
                owner, _, rest = key.partition(".")
                if owner == str(p):
                    index, name = rest.split(".")
                    whole["state"].setdefault(int(index), {})[name] = _as_saved(part, value)
            part.load_state_dict(whole)


def _as_saved(part: torch.optim.Optimizer, value: Tensor) -> Tensor | int:
    # SparseAdam counts its steps in a plain number, Adam in a tensor.
    return int(value) if isinstance(part, torch.optim.SparseAdam) and value.dim() == 0 else value


def step_scale(step: int, n_steps: int, warmup: float, final: float) -> float:
    """Give the fraction of the learning rate at a step: a linear rise, then a linear fall."""
    n_warmup = int(warmup * n_steps)
    if step < n_warmup:
        return (step + 1) / (n_warmup + 1)
    progress = (step - n_warmup) / max(n_steps - n_warmup, 1)
    return 1 - (1 - final) * progress
