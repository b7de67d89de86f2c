"""`kernmend mend --workers` and `--cluster`: files larger than memory, mended block by block by other processes."""

import logging
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np

from kernmend._typing import Array
from kernmend.cli import words as cli_words
from kernmend.cli import work as cli_work
from kernmend.cli.targets import Refused, check_free, find_targets, input_file
from kernmend.estimators._progress import counting_bar
from kernmend.estimators._trust import OF_ROWS, list_changes
from kernmend.io import ChangeLog, FileError, _blocks
from kernmend.io._change_log import joined
from kernmend.io.changes import Found, make_log
from kernmend.large import dask as _dask

NEEDED = "mending on a cluster needs dask: pip install 'dask[array,dataframe]' distributed"
# Seconds that a cluster has to answer.
SECONDS = 20


def run_mend_by_blocks(
    source: Path,
    where: dict[str, Any],
    *,
    output: Path | None,
    report: Path | None,
    changes: Path | None,
    save_model: Path | None,
    method: str,
    **options: Any,
) -> None:
    """Learn from landmarks, let the workers mend and write the blocks, then give the output its name."""
    with cli_work.session(options) as started:
        target = find_targets([source], output)[0]
        check_free([target, report, changes, save_model], options["force"], inputs=[input_file(source)])
        if method != "kernel":
            raise Refused(f"a cluster mends by the method kernel, not by {method}")
        with cli_work.reading():
            blocks, data = _blocks.open_blocks(source, **cli_work.of_reading(options))
        estimator = cli_work.make_estimator(method, data, options)
        with _cluster(**where) as client, _troubles(), _blocks.working_folder(target) as folder:
            with cli_work.failing(estimator):
                estimator.fit(_array(blocks, data.X))
            if cli_work.was_interrupted(estimator):
                raise KeyboardInterrupt
            done = _mend(client, estimator, blocks, folder, options["progress"], log=changes is not None)
            with cli_work.writing():
                _blocks.finish(folder, target, data, force=options["force"])
        scores, flags = estimator._gathered = tuple(np.concatenate([part[i] for part in done]) for i in (0, 1))
        facts = cli_words.facts("mend", data, flags, scores, estimator) | {"method": method}
        facts |= {"rows": scores.size, "missing": estimator.n_missing_, "interrupted": False}
        facts |= {"changed": sum(part[2] for part in done), "filled": sum(part[3] for part in done)}
        with cli_work.writing():
            facts["output"] = str(target)
            if changes is not None:
                facts["changes"] = str(joined([part[4] for part in done]).write(changes, force=options["force"]))
            if report is not None:
                names = {"columns": data.columns, "image_shape": data.image_shape}
                facts["report"] = str(estimator.report(report, title=source.name, force=options["force"], **names))
            if save_model is not None:
                facts["model"] = str(_named(estimator, data).save(save_model, force=options["force"]))
        facts["seconds"] = round(time.perf_counter() - started, 3)
        cli_work.tell(options, facts, lambda: cli_words.of_mend(facts, data, estimator))


def _named(estimator: Any, data: Any) -> Any:
    if data.columns is not None:
        estimator.feature_names_in_ = np.array(data.columns, dtype=object)
    return estimator


def _array(blocks: _blocks.Blocks, like: Array) -> Any:
    """Return the numbers of all blocks as a dask array."""
    dask, array = import_module("dask"), import_module("dask.array")
    shared, read = dask.delayed(blocks, traverse=False, pure=False), dask.delayed(_read, pure=False)
    parts = [
        array.from_delayed(read(shared, k), (size, like.shape[1]), like.dtype) for k, size in enumerate(blocks.sizes)
    ]
    return array.concatenate(parts)


def _read(blocks: _blocks.Blocks, k: int) -> Array:
    return blocks.numbers(k)


def _mend(client: Any, estimator: Any, blocks: _blocks.Blocks, folder: Path, progress: bool, *, log: bool) -> list[Any]:
    """Let the workers mend and write all blocks; return what `_mend_one` says of each."""
    folder = folder.absolute()
    blocks.begin(folder)
    dask, distributed = import_module("dask"), import_module("distributed")
    model, shared = _dask.share(estimator), dask.delayed(blocks, traverse=False, pure=False)
    mend = dask.delayed(_mend_one, pure=False)
    starts = np.cumsum([0, *blocks.sizes])
    tasks = [mend(model, shared, k, int(start), folder, log=log) for k, start in enumerate(starts[:-1])]
    futures = client.compute(tasks)
    places = {future.key: k for k, future in enumerate(futures)}
    out: list[Any] = [None] * len(futures)
    rows = flagged = 0
    with counting_bar("mending", int(starts[-1]), label="flagged") if progress else nullcontext() as bar:
        for future, result in distributed.as_completed(futures, with_results=True):
            out[places[future.key]] = result
            rows, flagged = rows + result[1].size, flagged + int(result[1].sum())
            if bar is not None:
                bar(rows, flagged / rows)
    client.gather([client.submit(ending, pure=False) for ending in blocks.endings(folder)])
    return out


def _mend_one(
    model: Any, blocks: _blocks.Blocks, k: int, start: int, folder: Path, *, log: bool
) -> tuple[Any, Any, int, int, ChangeLog | None]:
    """Mend and write one block, on a worker; return scores, flags, values changed and filled in, the log if asked."""
    X = blocks.numbers(k)
    found = dict(zip(_dask._of_rows(model), _dask.mend_block(model, X, start), strict=True))
    A, scores, flags = (found[name] for name in ("recovered_", "outlier_scores_", "outliers_"))
    values, changed = blocks.put(folder, k, A)
    changes = None
    if log:
        which = np.flatnonzero(((A != X) | found["unsure_"]).any(axis=1))
        told = {name: found[name][which] for name in OF_ROWS if name in found}
        listed = list_changes(model, which, X[which], A[which], told)
        changes = make_log(blocks.source(k), values, Found(scores, flags, listed.records))
        changes = replace(changes, row=changes.row + start)
    return scores, flags, int(changed.sum()), int((changed & np.isnan(X)).sum()), changes


@contextmanager
def _cluster(workers: int | None, memory: str | None, cluster: str | None) -> Iterator[Any]:
    """Give a client of the cluster that was asked for; one of our own ends with it."""
    try:
        distributed = import_module("distributed")
        import_module("dask.array")
    except ImportError as error:
        raise click.ClickException(NEEDED) from error
    for name in ("distributed", "asyncio"):  # what matters of them is said in our words
        logging.getLogger(name).setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", module="distributed")  # until the session ends
    if cluster is not None:
        try:
            client = distributed.Client(cluster, timeout=SECONDS)
        except (OSError, ValueError) as error:
            raise Refused(f"there is no Dask cluster at {cluster}") from error
        with client:
            yield client
        return
    with (
        # A worker that takes too much shall be ended and give its block to another, not wait for ever.
        import_module("dask").config.set({"distributed.worker.memory.pause": False}),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=memory or "auto",
            processes=True,
            dashboard_address=":0",
            host="127.0.0.1",
            silence_logs=logging.CRITICAL,
        ) as local,
        distributed.Client(local) as client,
    ):
        yield client


@contextmanager
def _troubles() -> Iterator[None]:
    """Turn the end of workers, and what they refuse, into one line."""
    distributed = import_module("distributed")
    try:
        yield
    except distributed.KilledWorker as error:
        message = "workers died again and again over the same block: raise --memory, or store smaller chunks"
        raise click.ClickException(message) from error
    except FileError as error:
        raise click.ClickException(str(error)) from error
