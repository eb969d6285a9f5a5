"""A training with a real framework, whole and resumed: `python framework_resume.py lightning|accelerate FOLDER`.

Rank 0 prints whether both end with the same parameters.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

from bitlane.compress import EFSign

EPOCHS, SAVED_AFTER = 4, 2


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(5, 40), torch.nn.ReLU(), torch.nn.Linear(40, 2))


def batches():
    torch.manual_seed(1)
    points = torch.randn(64, 5)
    return DataLoader(TensorDataset(points, (points.sum(1) > 0).long()), batch_size=8)


def with_accelerate(folder: Path):
    """Return the parameters at the end of the whole and of the resumed training, and whether this is rank 0."""
    from accelerate import Accelerator

    from bitlane.compress.for_accelerate import attach_accelerate

    ends = []
    for first in (0, SAVED_AFTER):
        model = network()
        accelerator = Accelerator(cpu=True)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        model, optimizer, loader = accelerator.prepare(model, optimizer, batches())
        with attach_accelerate(accelerator, model, EFSign()):
            if first:
                accelerator.load_state(str(folder))
            for epoch in range(first, EPOCHS):
                if epoch == SAVED_AFTER and not first:
                    accelerator.save_state(str(folder))
                for x, y in loader:
                    optimizer.zero_grad()
                    accelerator.backward(torch.nn.functional.cross_entropy(model(x), y))
                    optimizer.step()
        ends.append(list(model.parameters()))
    return ends, accelerator.is_main_process


def with_lightning(folder: Path):
    """As `with_accelerate`."""
    import lightning

    from bitlane.compress.for_lightning import CompressGradients

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = network()

        def training_step(self, batch, number):
            return torch.nn.functional.cross_entropy(self.network(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01)

    ends = []
    for epochs, checkpoint in ((EPOCHS, None), (SAVED_AFTER, None), (EPOCHS, str(folder / "saved.ckpt"))):
        options = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        options |= {"enable_model_summary": False, "max_epochs": epochs, "callbacks": [CompressGradients(EFSign())]}
        trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", **options)
        module = Classifier()
        trainer.fit(module, batches(), ckpt_path=checkpoint)
        if epochs == SAVED_AFTER:
            trainer.save_checkpoint(str(folder / "saved.ckpt"))
        else:
            ends.append(list(module.parameters()))
    return ends, trainer.is_global_zero


def main() -> None:
    """Train, and print the result."""
    (whole, resumed), is_first = {"accelerate": with_accelerate, "lightning": with_lightning}[sys.argv[1]](
        Path(sys.argv[2])
    )
    if is_first:
        print("identical" if all(torch.equal(a, b) for a, b in zip(whole, resumed, strict=True)) else "different")


if __name__ == "__main__":
    main()
