"""Everything works without the fast forms of `cpu`, and gives the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from toy_training import BOTH, CONFIG, FIRST, N_DOCUMENTS, SEED, assert_same, new_data, new_network, train, weight_score

from haxmlnet.network.encoder import BiLSTMEncoder
from haxmlnet.progress import Progress
from haxmlnet.training import hardware
from haxmlnet.training.checkpoints import Checkpoints
from haxmlnet.training.hardware import choose_dtype, kept_memory, side_by_side, workers
from haxmlnet.training.lazy_adam import RowAdam, TableAdam
from haxmlnet.training.trainer import Trainer, n_parts


@pytest.fixture
def without_room(monkeypatch):
    monkeypatch.setattr(hardware, "USE_CPU_ROOM", False)


def probabilities(network, levels: range) -> list[np.ndarray]:
    tokens, lengths = map(torch.from_numpy, new_data(levels).tokens.pad(np.arange(N_DOCUMENTS)))
    with torch.no_grad():
        states = network.eval().encode(tokens, lengths)
        return [network.head(level)(states, lengths).sigmoid().numpy() for level in levels]


@pytest.mark.parametrize("levels", [FIRST, BOTH], ids=["first", "both"])
def test_a_training_without_dropout_has_the_same_outcome(monkeypatch, levels):
    found = []
    for uses_room in (True, False):
        monkeypatch.setattr(hardware, "USE_CPU_ROOM", uses_room)
        network = new_network(levels, dropout=0)
        assert (type(network.encoder) is BiLSTMEncoder) != uses_room
        trainer = Trainer(network, new_data(levels), CONFIG, SEED, None, "part")
        assert any(isinstance(table, TableAdam) for table in trainer.optimizer.tables) != uses_room
        trainer.run()
        found.append(probabilities(network, levels))
    for fast, plain in zip(*found, strict=True):
        np.testing.assert_allclose(fast, plain, atol=1e-3)


class CrashAfterSevenBatches(Progress):
    @contextmanager
    def stage(self, name: str, total: int, unit: str) -> Iterator[Callable[..., None]]:
        left = [7]

        def advance(n: int, note: str = "") -> None:
            left[0] -= bool(note)
            if left[0] == 0:
                raise RuntimeError("power failure")

        yield advance


@pytest.mark.usefixtures("without_room")
def test_training_resumes_to_the_same_weights(tmp_path):
    expected, expected_score = train(CONFIG, BOTH)
    for resume in (False, True):
        network = new_network(BOTH, seed=int(resume))
        checkpoints = Checkpoints.start(tmp_path, {"settings": "{}", "data": ""}, 0, resume)
        trainer = Trainer(
            network,
            new_data(BOTH),
            CONFIG,
            SEED,
            lambda network=network: weight_score(network),
            "part",
            checkpoints=checkpoints,
        )
        if resume:
            assert trainer.run() == expected_score
            assert_same(network.state_dict(), expected)
            continue
        trainer.progress = CrashAfterSevenBatches()
        with pytest.raises(RuntimeError):
            trainer.run()


@pytest.mark.usefixtures("without_room")
def test_nothing_of_the_room_is_chosen():
    torch.set_num_threads(4)
    cpu = torch.device("cpu")
    assert choose_dtype("auto", cpu) == torch.float32
    assert n_parts(64, cpu) == 1
    with workers(4) as run, kept_memory(cpu):
        assert run is map
    assert side_by_side([torch.is_grad_enabled, torch.get_num_threads]) == [False, 4]
    assert type(hardware.lazy_adam(torch.zeros(3, 2), row_moments=False)) is TableAdam
    assert type(hardware.lazy_adam(torch.zeros(3, 2), row_moments=True)) is RowAdam


WITHOUT_ROOM = """
import sys
sys.modules["haxmlnet.cpu"] = None  # as if it were deleted
import haxmlnet

texts = [f"{animal} number {i}" for i in range(20) for animal in ("cat", "dog", "owl")]
labels = [[text.split()[0]] for text in texts]
model = haxmlnet.HAXMLNet(epochs=3, n_jobs=1).fit(texts, labels)
model.save(sys.argv[1])
ranking, again = model.predict(texts[:5], k=2), haxmlnet.load_model(sys.argv[1]).predict(texts[:5], k=2)
assert ranking.ids.tolist() == again.ids.tolist()
assert abs(ranking.scores - again.scores).max() < 1e-6
assert not any(name.startswith("haxmlnet.cpu.") for name in sys.modules)
print("fitted, saved, loaded")
"""


def test_a_model_fits_and_predicts_where_the_room_is_deleted(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_ROOM, str(tmp_path / "model")], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("fitted, saved, loaded\n", "")
