"""What the bench compares: one table, a line for each configuration.

To add one of ours: `"its name": own("Method", setting=value)`, where Method is any name in haxmlnet.models.METHODS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OWN, LINEAR_PEERS, NEURAL_PEERS = "", ".venv-peers", ".venv-peers-neural"
VECTORS = "@vectors"
"""Stands for the file of word vectors given to the bench (--vectors)."""


@dataclass(frozen=True)
class Configuration:
    """A method with its settings."""

    method: str
    """One of haxmlnet's methods, or a module of benchmarks.peers."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    preset: str | None = None
    environment: str = OWN
    peer: bool = False
    """Others are compared with the best of the peers."""
    use_dev: bool = False
    """On the test split, give the data set's own dev documents to the method, for choosing its best weights."""
    most_labels: int | None = None
    """On data with more labels it runs only where it is asked for by name: it would take many hours."""

    @property
    def reads_features(self) -> bool:
        """Whether the method is given TF-IDF instead of texts."""
        return self.environment == LINEAR_PEERS


def own(
    method: str,
    *,
    preset: str | None = None,
    peer: bool = False,
    use_dev: bool = False,
    most_labels: int | None = None,
    **settings: Any,
) -> Configuration:
    """Describe one of haxmlnet's methods with some of its settings."""
    return Configuration(method, settings, preset, OWN, peer, use_dev, most_labels)


def small_attention_xml(
    epochs: int, most_labels: int, words: int = 200, cluster_size: int = 32, beam_width: int = 16, batch_size: int = 32
) -> Configuration:
    """Describe LibMultiLabel's AttentionXML with networks as large as those of HAXMLNet by default."""
    settings = {
        "vectors": VECTORS, "max_seq_length": words, "cluster_size": cluster_size, "beam_width": beam_width,
        "batch_size": batch_size, "eval_batch_size": 32, "epochs": epochs, "patience": 10, "learning_rate": 1e-3,
        "network_config": {
            "embed_dropout": 0.2, "post_encoder_dropout": 0.5, "rnn_dim": 256, "rnn_layers": 1,
            "linear_size": [128], "freeze_embed_training": False,
        },
    }  # fmt: skip
    method = "libmultilabel_attentionxml"
    return Configuration(method, settings, environment=NEURAL_PEERS, peer=True, most_labels=most_labels)


CONFIGURATIONS: dict[str, Configuration] = {
    # All neural methods get the word vectors of the bench.
    "HAXMLNet": own("HAXMLNet", vectors=VECTORS),
    "HAXMLNet 2 trees": own("HAXMLNet", vectors=VECTORS, n_trees=2),
    # It learns from the documents that the others hold out, too, and fits its fusion on dev.
    "HAXMLNet 2 trees, dev": own("HAXMLNet", vectors=VECTORS, n_trees=2, use_dev=True, max_validation=6000),
    "HAXMLNet paper": own("HAXMLNet", preset="paper", vectors=VECTORS, most_labels=20_000),
    "LinearTree": own("LinearTree"),
    "OneVsRestSVM": own("OneVsRestSVM", peer=True, most_labels=100_000),
    # Both as the README of omikuji describes them; everything else is its default.
    "omikuji Bonsai-like": Configuration(
        "omikuji_trees",
        {"n_trees": 3, "cluster_balanced": False, "cluster_k": 100, "max_depth": 3},
        environment=LINEAR_PEERS,
        peer=True,
    ),
    "omikuji Parabel-like": Configuration("omikuji_trees", {"n_trees": 3}, environment=LINEAR_PEERS, peer=True),
    "napkinxc PLT": Configuration("napkinxc_plt", environment=LINEAR_PEERS, peer=True),
    "libpecos XR-Linear": Configuration("pecos_xrlinear", environment=LINEAR_PEERS, peer=True),
    # As large as HAXMLNet is by default, with as many passes for each of its two levels as HAXMLNet takes in all on
    # small data, and on larger data: the library's own settings below take hours even on small data.
    "libmultilabel AttentionXML, small": small_attention_xml(10, most_labels=2_000),
    "libmultilabel AttentionXML, small, 5 passes": small_attention_xml(5, most_labels=5_000),
    # For 120,000 short documents with 60,000 labels: 512 clusters, and the 468 labels of 4 of them. More passes or
    # candidates take many hours.
    "libmultilabel AttentionXML, short texts, 2 passes": small_attention_xml(
        2, most_labels=5_000, words=64, cluster_size=128, beam_width=4, batch_size=64
    ),
    # The library's own example for EUR-Lex, with the word vectors of the bench instead of 300-d ones.
    "libmultilabel AttentionXML": Configuration(
        "libmultilabel_attentionxml",
        {
            "vectors": VECTORS, "max_seq_length": 500, "cluster_size": 8, "beam_width": 64, "batch_size": 40,
            "eval_batch_size": 40, "epochs": 30, "patience": 10, "learning_rate": 1e-3,
            "network_config": {
                "embed_dropout": 0.2, "post_encoder_dropout": 0.5, "rnn_dim": 512, "rnn_layers": 1,
                "linear_size": [256], "freeze_embed_training": True,
            },
        },
        environment=NEURAL_PEERS, peer=True, most_labels=2_000,
    ),
}  # fmt: skip
