"""Train a network with Hugging Face Accelerate, and compress its gradients.

`accelerator.prepare` wraps the model in DistributedDataParallel; `attach_accelerate` takes it from there, with the
scaler of float16. `accelerator.save_state` and `load_state` keep the state of each rank.

    pip install 'bitlane[torch,fast]' accelerate
    torchrun --nproc-per-node 2 examples/compress_accelerate.py     # on GPUs: accelerate launch
"""

from __future__ import annotations

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

from bitlane.compress import QSGD
from bitlane.compress.for_accelerate import attach_accelerate

ROWS, FEATURES, EPOCHS = 2048, 20, 3


def main() -> None:
    """Train on two classes of points."""
    torch.manual_seed(0)  # the same points and the same parameters on all ranks
    points = torch.randn(ROWS, FEATURES)
    classes = (points.sum(1) > 0).long()
    model = torch.nn.Sequential(torch.nn.Linear(FEATURES, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(points, classes), batch_size=64, shuffle=True)

    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    with attach_accelerate(accelerator, model, QSGD(bits=4, error_feedback=True)) as compression:
        for epoch in range(EPOCHS):
            for x, y in loader:
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                optimizer.step()
            accelerator.print(f"epoch {epoch}: loss {loss.item():.3f}")
        stats = compression.stats
        accelerator.print(f"{stats.steps} steps, {stats.total.ratio:.3f} of the bytes of float32")
    accelerator.end_training()


if __name__ == "__main__":
    main()
