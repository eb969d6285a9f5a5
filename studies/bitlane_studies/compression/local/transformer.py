"""A small causal transformer over bytes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

BYTE_VALUES = 256
HEADS = 4


class TransformerBlock(nn.Module):
    """Causal attention, then a perceptron, each after a normalization and with a shortcut."""

    def __init__(self, width: int):
        super().__init__()
        self.before_attention, self.before_perceptron = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the activations after this block, [batch, length, width]."""
        projected = self.queries_keys_values(self.before_attention(x)).chunk(3, -1)
        queries, keys, values = (each.unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in projected)
        attended = scaled_dot_product_attention(queries, keys, values, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.out(attended)
        activations: Tensor = x + self.perceptron(self.before_perceptron(x))
        return activations


class ByteTransformer(nn.Module):
    """Predicts each next byte of a text.

    Parameters
    ----------
    width : int, default: 32
        Size of an activation.
    depth : int, default: 2
        Number of blocks.
    length : int, default: 32
        Longest input.
    """

    def __init__(self, width: int = 32, depth: int = 2, length: int = 32):
        super().__init__()
        self.bytes, self.positions = nn.Embedding(BYTE_VALUES, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(TransformerBlock(width) for _ in range(depth)), nn.LayerNorm(width))
        self.head = nn.Linear(width, BYTE_VALUES)
        for embedding in (self.bytes, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of the next bytes, [batch, length, 256], for bytes, int64 [batch, length]."""
        positions = torch.arange(x.shape[1], device=x.device)
        logits: Tensor = self.head(self.blocks(self.bytes(x) + self.positions(positions)))
        return logits
