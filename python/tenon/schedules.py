"""Learning-rate schedules: the rate as a function of the number of updates done.

    tenon.AdamW(lr=3e-4, schedule=schedules.warmup(100) + schedules.cosine(1000))

Each is one of torch.optim.lr_scheduler, stepped after every update. Added schedules follow each other; each counts from
its own start.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Schedule", "constant", "cosine", "exponential", "linear", "one_cycle", "step", "warmup"]


@dataclass(frozen=True)
class Schedule:
    """A schedule, as text for tenon.Optimizer."""

    text: str

    def __add__(self, other: Schedule) -> Schedule:
        return Schedule(f"{self.text} + {other.text}")

    def __str__(self) -> str:
        return self.text


def constant(factor: float = 1.0, steps: int | None = None) -> Schedule:
    """lr * factor; for `steps` updates if another schedule follows."""
    return Schedule(f"constant({factor})" if steps is None else f"constant({factor}, steps={steps})")


def warmup(steps: int, start: float = 0.0) -> Schedule:
    """From lr * start up to lr."""
    return Schedule(f"warmup({steps}, start={start})")


def linear(steps: int, start: float = 1.0, end: float = 0.0) -> Schedule:
    """From lr * start to lr * end, then constant: LinearLR."""
    return Schedule(f"linear({steps}, start={start}, end={end})")


def step(size: int, gamma: float = 0.1) -> Schedule:
    """Multiplies by gamma after every `size` updates: StepLR."""
    return Schedule(f"step({size}, gamma={gamma})")


def exponential(gamma: float) -> Schedule:
    """Multiplies by gamma after each update: ExponentialLR."""
    return Schedule(f"exponential({gamma})")


def cosine(steps: int, eta_min: float = 0.0) -> Schedule:
    """Half a cosine, from lr to eta_min: CosineAnnealingLR. After `steps`, the rate rises again."""
    return Schedule(f"cosine({steps}, eta_min={eta_min})")


def one_cycle(
    steps: int,
    pct_start: float = 0.3,
    anneal: str = "cos",
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
    three_phase: bool = False,
) -> Schedule:
    """Up to lr, then down to almost zero: OneCycleLR with max_lr=lr and cycle_momentum=False. `anneal` is "cos" or
    "linear"."""
    return Schedule(
        f"one_cycle({steps}, pct_start={pct_start}, anneal={anneal}, div_factor={div_factor}, "
        f"final_div_factor={final_div_factor}, three_phase={three_phase})"
    )
