"""`Plan`: what a training would be, take and need, before anything is trained; and the refusal of what does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.errors import NotEnoughMemory
from haxmlnet.planning.advice import Change, advice, fits
from haxmlnet.planning.machine import available_memory
from haxmlnet.planning.memory import Memory
from haxmlnet.planning.shape import ModelShape
from haxmlnet.planning.sizes import DataSizes
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
    def of(cls, sizes: DataSizes, settings: Mapping[str, Any]) -> Plan:
        """Plan a training with settings that are all decided."""
        shape = ModelShape(sizes, settings)
        check_level_sizes(shape.level_sizes[:-1], sizes.n_labels)
        return cls(shape, available_memory())

    @cached_property
    def memory(self) -> Memory:
        """The memory that it takes."""
        return Memory(self.shape)

    @property
    def needed(self) -> int:
        """Bytes that training takes beside what the process has already."""
        return self.memory.training_peak - self.memory.present

    @property
    def room(self) -> int | None:
        """Bytes that training can have at its peak, those that the process has already among them."""
        return None if self.available is None else self.available + self.memory.present

    @property
    def fits(self) -> bool:
        """Whether training fits into the memory that is free; what is not known is no reason to refuse."""
        return self.available is None or fits(self.shape, self.available)

    @property
    def is_tight(self) -> bool:
        """Whether it fits by less than the estimate may be wrong."""
        return self.available is not None and self.fits and self.needed > TIGHT * self.available

    @cached_property
    def advice(self) -> list[Change]:
        """What to change so that it fits; nothing where it does."""
        return [] if self.fits or self.available is None else advice(self.shape, self.available)

    def describe(self) -> dict[str, Any]:
        """Give all of it as plain values."""
        shape, memory = self.shape, self.memory
        sizes = {
            "documents": shape.sizes.n_documents, "labels": shape.sizes.n_labels,
            "labels_per_document": round(shape.sizes.labels_per_document, 2),
            "words_per_document": round(float(shape.sizes.lengths.mean()), 1),
            "words_read_per_document": round(shape.sizes.read_words(shape.settings["max_length"]), 1),
            "vocabulary": shape.vocabulary,
        }  # fmt: skip
        return {
            "sizes": sizes,
            "levels": [asdict(level) for level in shape.levels],
            "n_trees": shape.settings["n_trees"],
            "parameters": shape.parameters,
            "memory_bytes": memory.parts,
            "memory_totals": memory.totals,
            "training_peak_bytes": memory.training_peak,
            "mapped_bytes": memory.mapped,
            "model_bytes": memory.model_bytes,
            "checkpoint_bytes": memory.checkpoint_bytes,
            "needed_bytes": self.needed,
            "available_bytes": self.available,
            "fits": self.fits,
            "is_tight": self.is_tight,
            "advice": [{**asdict(change), "flag": change.flag} for change in self.advice],
            "settings": dict(shape.settings),
        }


def refuse_what_does_not_fit(corpus: PreparedCorpus, settings: Mapping[str, Any], has_checkpoints: bool) -> None:
    """Raise NotEnoughMemory, with the best advice, where a training would die of memory."""
    plan = Plan(ModelShape(DataSizes.of_corpus(corpus), settings, has_checkpoints), available_memory())
    if plan.fits or plan.available is None:
        return
    needed, available = plan.needed / GIGABYTE, plan.available / GIGABYTE
    raise NotEnoughMemory(
        f"training would take about {needed:.1f} GB of memory more, but {available:.1f} GB are free. "
        f"{_advised(plan.advice)} 'haxmlnet plan' shows all parts; check_memory=False trains all the same."
    )


def _advised(changes: list[Change]) -> str:
    if not changes or not changes[-1].fits:
        return "Use a machine with more memory, as no setting makes it fit."
    if changes[0].fits:
        shown = [f"{change.argument} (saves {change.saved / GIGABYTE:.1f} GB)" for change in changes[:3]]
        return f"Use {' or '.join(shown)}."
    return f"Use {', '.join(change.argument for change in changes)} together."
