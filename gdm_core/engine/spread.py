"""A fit spread over the workers of a Dask cluster where the data live: rows stay where they are, gradients travel.

from functools import partial
from datasets.large import open_large

parts = [partial(open_large, "/data/a.npy"), partial(open_large, "/data/b.npy")]
with Client("tcp://10.0.0.5:8786") as client:
    model = fit_spread(GDM(n_states=8, n_latent=3, batch_size=100_000), parts, client, ["tcp://10.0.0.6:41001", ...])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from distributed import Client

from gdm_core.errors import ConfigError, FitError, GdmError
from gdm_core.models.base import Progress
from gdm_core.models.gdm.streaming import DataPart, DataParts, PartsInProcess
from gdm_core.streams import StreamedTrials

if TYPE_CHECKING:
    from gdm_core.models.gdm.model import GDM

Opener = Callable[[], StreamedTrials]
START_LIMIT_S = 300


class PartsOnWorkers:
    """Parts held by workers, which answer at the same time."""

    def __init__(self, opened: Sequence[Opener], client: Client, workers: Sequence[str] | None) -> None:
        there = sorted(client.scheduler_info(n_workers=-1)["workers"])
        if not there:
            raise FitError("The cluster has no workers. Start some, or fit in this process: client=None.")
        chosen = list(workers) if workers is not None else [there[i % len(there)] for i in range(len(opened))]
        if unknown := sorted(set(chosen) - set(there)):
            raise ConfigError(f"The cluster has no worker {unknown[0]}; it has {', '.join(there[:8])}.")
        futures = [
            client.submit(DataPart, one, number, actor=True, workers=[worker], pure=False)
            for number, (one, worker) in enumerate(zip(opened, chosen, strict=True))
        ]
        self._client = client
        with client.as_current():  # whom an actor's messages go through
            self._actors = [future.result(timeout=START_LIMIT_S) for future in futures]

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """What a method of every part answers, in their order."""
        try:
            with self._client.as_current():
                answers = [getattr(actor, method)(*arguments) for actor in self._actors]
                return [answer.result() for answer in answers]
        except GdmError:
            raise
        except (OSError, ValueError, RuntimeError, TimeoutError) as error:  # how Dask says that an actor is lost
            raise FitError(
                f"A worker that holds a share of the data was lost ({error}). Start the fit again."
            ) from error


def fit_spread(
    model: GDM, shares: Sequence[Opener], client: Client | None = None, workers: Sequence[str] | None = None
) -> GDM:
    """Fit `model` to several shares of a recording at once; the same model, to the bit, wherever they are held.

    model    a GDM; each step looks at `batch_size` rows over all shares together, so a large one makes spreading pay
    shares   for each a function without parameters that opens it where it lies, such as `partial(open_large, path)`
    client   of a Dask cluster; None holds all shares in this process
    workers  addresses, one for each share; if None they take turns
    """
    for _ in fit_spread_iter(model, shares, client, workers):
        pass
    return model


def fit_spread_iter(
    model: GDM, shares: Sequence[Opener], client: Client | None = None, workers: Sequence[str] | None = None
) -> Iterator[Progress]:
    """`fit_spread` step by step. Closing the iterator early leaves a usable model with status CANCELLED.

    model, shares, client, workers   as for `fit_spread`
    """
    if not shares:
        raise ConfigError("There are no shares to fit to; give at least one.")
    if workers is not None and len(workers) != len(shares):
        raise ConfigError(f"{len(workers)} workers are named for {len(shares)} shares; name one for each.")
    held: DataParts = PartsInProcess(list(shares)) if client is None else PartsOnWorkers(shares, client, workers)
    yield from model.fit_distributed(held)
