"""`LabelAttentionNetwork`: an encoder and the heads of one or more levels of the tree, and the score of a path."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator, Tensor, nn

from haxmlnet.network.encoder import BiLSTMEncoder
from haxmlnet.network.head import LabelHead


class LabelAttentionNetwork(nn.Module):
    """An encoder and the heads of one or more consecutive levels, which all read its states."""

    dtype = torch.float32
    """Of matmuls; the weights are always float32."""

    def __init__(self, encoder: BiLSTMEncoder, heads: Sequence[LabelHead], first_level: int = 0) -> None:
        super().__init__()
        self.encoder = encoder
        self.heads = nn.ModuleList(heads)
        self.first_level = first_level

    @property
    def levels(self) -> range:
        """The levels of the tree that this network scores."""
        return range(self.first_level, self.first_level + len(self.heads))

    @property
    def device(self) -> torch.device:
        """Where the network lives."""
        return self.encoder.words.weight.device

    def head(self, level: int) -> LabelHead:
        """Return the head of a level of the tree."""
        head = self.heads[level - self.first_level]
        assert isinstance(head, LabelHead)
        return head

    def autocast(self) -> torch.autocast:
        """Let a GPU multiply in bfloat16, if it should."""
        device = self.device.type
        return torch.autocast(device, torch.bfloat16, enabled=device == "cuda" and self.dtype == torch.bfloat16)

    def encode(self, tokens: Tensor, lengths: Tensor, generator: Generator | None = None) -> Tensor:
        """Return the states (B, T, H) that the heads read; in training, the generator decides what is dropped."""
        states: Tensor = self.encoder(tokens, lengths, generator)
        return states

    def start_from(self, above: LabelAttentionNetwork) -> None:
        """Take over the encoder and the shared layers of the level above."""
        self.encoder.load_state_dict(above.encoder.state_dict())
        for head in self.heads:
            for part in ("first", "middle", "last"):
                getattr(head, part).load_state_dict(getattr(above.heads[-1], part).state_dict())
