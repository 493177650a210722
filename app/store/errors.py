"""What the store refuses or finds broken."""


class StoreError(Exception):
    """Base of the store's errors; the text is one sentence."""


class StillNeededError(StoreError):
    """A dataset can't be deleted while a model needs it; `model_ids` names up to ten of them."""

    def __init__(self, dataset_id: str, model_ids: list[str]) -> None:
        self.model_ids = model_ids
        super().__init__(
            f"Dataset {dataset_id} is needed by {', '.join(model_ids)}: delete those models first."
        )


class CorruptBlockError(StoreError):
    """Stored bytes differ from their checksum."""


class LeaseLostError(StoreError):
    """The unit is no longer this worker's: whatever it still wanted to write is void."""
