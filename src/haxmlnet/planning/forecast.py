"""`Plan`: what a training would be, take and need, before anything is trained; and the refusal of what does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.errors import NotEnoughMemory
from haxmlnet.planning.advice import Change, advise
from haxmlnet.planning.available_memory import available_memory
from haxmlnet.planning.model_shape import ModelShape
from haxmlnet.planning.sizes import DataSizes
from haxmlnet.planning.training_memory import Memory
from haxmlnet.tree.build import check_level_sizes

GIGABYTE = 1e9
# Estimates may be so wrong: what leaves less room than this is called tight.
TIGHT = 0.8


@dataclass(frozen=True)
class Plan:
    """The shape of a model, the memory that it takes, and what there is of it."""

    shape: ModelShape
    available: int | None
    """Bytes that are free on this machine; None: not known."""

    @classmethod
    def of(cls, sizes: DataSizes, settings: Mapping[str, Any], has_checkpoints: bool = True) -> Plan:
        """Plan a training on this machine, with settings as `resolve_settings` gives them."""
        shape = ModelShape(sizes, settings, has_checkpoints)
        check_level_sizes(shape.level_sizes[:-1], sizes.n_labels)
        return cls(shape, available_memory())

    @cached_property
    def memory(self) -> Memory:
        """The memory that it takes."""
        return Memory(self.shape)

    @property
    def room(self) -> int | None:
        """Bytes that training can have at its peak, those that the process has already among them."""
        return None if self.available is None else self.available + self.memory.present

    @property
    def fits(self) -> bool:
        """Whether training fits into the memory that is free; what is not known is no reason to refuse."""
        return self.available is None or self.memory.needed <= self.available

    @property
    def is_tight(self) -> bool:
        """Whether it fits by less than the estimate may be wrong."""
        return self.available is not None and self.fits and self.memory.needed > TIGHT * self.available

    @cached_property
    def advice(self) -> list[Change]:
        """What to change so that it fits; nothing where it does."""
        return [] if self.fits or self.available is None else advise(self.shape, self.available)

    def describe(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        shape, sizes, memory = self.shape, self.shape.sizes, self.memory
        return {
            "sizes": {
                "documents": sizes.n_documents,
                "labels": sizes.n_labels,
                "labels_per_document": round(sizes.labels_per_document, 2),
                "words_per_document": round(float(sizes.lengths.mean()), 1),
                "words_read_per_document": round(sizes.mean_length(shape.config.text.max_length), 1),
                "vocabulary": shape.vocabulary,
            },
            "levels": [asdict(level) for level in shape.levels],
            "n_trees": shape.config.tree.n_trees,
            "parameters": shape.parameters,
            "memory_bytes": memory.parts,
            "memory_totals": memory.totals,
            "training_peak_bytes": memory.training_peak,
            "mapped_bytes": memory.mapped,
            "model_bytes": memory.model_bytes,
            "checkpoint_bytes": memory.checkpoint_bytes,
            "needed_bytes": memory.needed,
            "available_bytes": self.available,
            "fits": self.fits,
            "is_tight": self.is_tight,
            "advice": [{**asdict(change), "flag": change.flag} for change in self.advice],
            "settings": dict(shape.settings),
        }


def refuse_what_does_not_fit(corpus: PreparedCorpus, settings: Mapping[str, Any], has_checkpoints: bool) -> None:
    """Raise NotEnoughMemory, with the best advice, where a training would run out of memory."""
    plan = Plan.of(DataSizes.of_corpus(corpus), settings, has_checkpoints)
    if plan.fits or plan.available is None:
        return
    changes = plan.advice
    if not changes or not changes[-1].fits:
        advice = "Use a machine with more memory, as no setting makes it fit."
    elif changes[0].fits:
        shown = [f"{change.argument} (saves {change.saved / GIGABYTE:.1f} GB)" for change in changes[:3]]
        advice = f"Use {' or '.join(shown)}."
    else:
        advice = f"Use {', '.join(change.argument for change in changes)} together."
    raise NotEnoughMemory(
        f"training would take about {plan.memory.needed / GIGABYTE:.1f} GB of memory more, but "
        f"{plan.available / GIGABYTE:.1f} GB are free. {advice} 'haxmlnet plan' shows all parts; check_memory=False "
        "trains anyway."
    )
