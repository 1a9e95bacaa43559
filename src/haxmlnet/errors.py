"""The exceptions users meet: each says in one line where, what is wrong, what came and what to do."""


class HaxmlnetError(Exception):
    """A mistake or a mishap the user can mend; the command line prints its one line and exits with 2."""


class DataError(HaxmlnetError, ValueError):
    """Input documents, labels or word vectors that cannot be used as they are."""


class SettingError(HaxmlnetError, ValueError):
    """A setting with a value it cannot have, or settings that contradict each other."""


class ModelError(HaxmlnetError):
    """A model directory that is missing, damaged, foreign or cannot be written."""


class NotEnoughMemory(HaxmlnetError, MemoryError):
    """A training that would not fit into the memory of this machine, refused before it begins."""


class TrainingInterrupted(KeyboardInterrupt):
    """Training was stopped by the user; with a checkpoint directory, what is done so far waits there.

    Like every Ctrl-C it passes through `except Exception`: a grid search must stop, not try the next value.
    """
