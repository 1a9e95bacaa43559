"""The prediction of libpecos, in its own environment: `python -m benchmarks.speed.pecos_predict TASK.json`.

Prints the seconds for all judged documents as JSON. Reading the model and the features is not timed.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from benchmarks.peers.exchange import N_BEST, WARM_UP, Task
from benchmarks.peers.pecos_xrlinear import load, read_queries


def main(path: str) -> None:
    """Predict by the library's own call alone."""
    task = Task.read(Path(path))
    loaded, features = load(task), read_queries(task)
    arguments = {"beam_size": loaded.beam, "only_topk": N_BEST, "threads": loaded.threads}
    loaded.model.predict(features[:WARM_UP], **arguments)
    started = time.perf_counter()
    loaded.model.predict(features, **arguments)
    print(json.dumps({"seconds": time.perf_counter() - started}))


if __name__ == "__main__":
    main(*sys.argv[1:])
