"""Train a network with Lightning, and compress its gradients.

The callback attaches the compressor to the module that the strategy "ddp" wraps. Checkpoints of Lightning have the
states of all ranks, so that `trainer.fit(..., ckpt_path=...)` continues identically.

    pip install 'bitlane[torch,fast]' lightning
    python examples/compress_lightning.py
"""

from __future__ import annotations

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

from bitlane.compress import QSGD
from bitlane.compress.for_lightning import CompressGradients

ROWS, FEATURES, EPOCHS = 2048, 20, 3


class Classifier(lightning.LightningModule):
    """A network with one hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.network = torch.nn.Sequential(torch.nn.Linear(FEATURES, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))

    def training_step(self, batch, number):
        x, y = batch
        self.loss = torch.nn.functional.cross_entropy(self.network(x), y)
        return self.loss

    def on_train_epoch_end(self) -> None:
        self.print(f"epoch {self.current_epoch}: loss {self.loss.item():.3f}")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main() -> None:
    """Train on two classes of points, on two processes."""
    lightning.seed_everything(0, verbose=False)
    points = torch.randn(ROWS, FEATURES)
    classes = (points.sum(1) > 0).long()
    loader = DataLoader(TensorDataset(points, classes), batch_size=64, shuffle=True)

    callback = CompressGradients(QSGD(bits=4, error_feedback=True))
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=EPOCHS, callbacks=[callback], **quiet
    )
    trainer.fit(Classifier(), loader)
    stats = callback.compression.stats
    if trainer.is_global_zero:
        print(f"{stats.steps} steps, {stats.total.ratio:.3f} of the bytes of float32")


if __name__ == "__main__":
    main()
