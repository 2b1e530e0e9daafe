"""What `autograder.worker.serve` does, for lessons that train a model.

The first step of an optimiser imports half of torch's compiler, and TensorBoard is large: that takes two seconds and
70 MiB, which other lessons have no use for.
"""

from __future__ import annotations

from autograder.worker import serve as _any_lesson
from autograder.worker.cells import Cells
from autograder.worker.serve import serve as serve

WARM_UP = (
    "from torch.utils.tensorboard import SummaryWriter",
    "x = torch.zeros(2, requires_grad=True)\noptimiser = torch.optim.AdamW([x])\nx.sum().backward()\noptimiser.step()",
)


def preload() -> Cells:
    """Import and warm everything once, as `autograder.worker.serve.preload` does, and what trains a model."""
    return _any_lesson.preload(WARM_UP)
