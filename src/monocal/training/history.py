"""What happened during training, as plain numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class TrainingHistory:
    """Losses along the way.

    Attributes:
        train_losses: Mean training loss between two checks; the first entry belongs to the second check.
        held_out_losses: Log-loss on the held-out rows at each check; the first one is before any step. Empty when
            nothing was held out.
        best_check: Index of the lowest held-out loss; its weights are the result.
        n_steps: Steps taken.
        n_epochs: Epochs finished or begun.
        open_loss: Sum of the training losses since the last check.
        open_steps: Steps since the last check.
    """

    train_losses: list[float] = field(default_factory=list)
    held_out_losses: list[float] = field(default_factory=list)
    best_check: int = 0
    n_steps: int = 0
    n_epochs: int = 0
    open_loss: float = 0.0
    open_steps: int = 0

    def add(self, loss: float) -> None:
        """Adds the training loss of one step."""
        self.n_steps += 1
        self.open_loss += loss
        self.open_steps += 1

    def close(self) -> float:
        """Ends the stretch since the last check and returns its mean training loss.

        Example:
            >>> history = TrainingHistory()
            >>> for loss in (0.5, 0.25):
            ...     history.add(loss)
            >>> history.close(), history.train_losses, history.n_steps
            (0.375, [0.375], 2)
        """
        mean = self.open_loss / self.open_steps
        self.train_losses.append(mean)
        self.open_loss, self.open_steps = 0.0, 0
        return mean

    def record(self, held_out_loss: float) -> bool:
        """Adds a check and says whether it is the best so far.

        Example:
            >>> history = TrainingHistory()
            >>> [history.record(loss) for loss in (0.5, 0.4, 0.45)], history.best_check
            ([True, True, False], 1)
        """
        self.held_out_losses.append(held_out_loss)
        latest = len(self.held_out_losses) - 1
        if latest == 0 or held_out_loss < self.held_out_losses[self.best_check]:
            self.best_check = latest
            return True
        return False

    @property
    def checks_since_best(self) -> int:
        return len(self.held_out_losses) - 1 - self.best_check if self.held_out_losses else 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
