"""From what a worker sends back to what the owner of a job sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distributed import KilledWorker

from gdm_core import errors
from gdm_core.engine.cache import ResultCache
from gdm_core.engine.jobs import Call, Job
from gdm_core.engine.messages import FitRequest, FitResult, Snapshot
from gdm_core.errors import FitError

TOO_BIG = (
    "The worker died each time the job ran, most likely because it needs more memory than a worker has. Use less data or "
    "a smaller model, or give workers more memory (docs/scaling.md)."
)


def finish_job(job: Job, outcome: Mapping[str, Any], cache: ResultCache) -> None:
    """End a job whose work came back, for better or worse."""
    if outcome["status"] == "failed":
        job.fail(error_from_worker(outcome["error"], outcome["message"]))
    elif outcome["status"] == "cancelled":
        job.cancel()
    elif isinstance(job.work, Call):
        if job.work.cache_key is not None and (note := cache.put_value(job.work.cache_key, outcome["value"])):
            job.note(note)
        job.succeed(outcome["value"])
    else:
        _finish_fit(job, job.work, outcome, cache)


def _finish_fit(job: Job, request: FitRequest, outcome: Mapping[str, Any], cache: ResultCache) -> None:
    snapshot = None if outcome["snapshot"] is None else Snapshot.decode(outcome["snapshot"])
    result = FitResult(
        request.key,
        outcome["model"],
        outcome["fit_status"],
        outcome["elbo"],
        outcome["seconds"],
        tuple(outcome["steps"]),
        tuple(outcome["elbos"]),
        snapshot,
    )
    if request.use_cache and (note := cache.put(result)):
        job.note(note)
    job.succeed(result, **fields_of_view(result))


def fields_of_view(result: FitResult) -> dict[str, Any]:
    """What the view of a finished fit takes from its result."""
    last = result.steps[-1] if result.steps else 0
    return {
        "step": last,
        "total": last,
        "steps": result.steps,
        "elbos": result.elbos,
        "snapshot": result.snapshot,
    }


def unexpected_error(error: BaseException) -> FitError:
    """What to tell the owner of a job that ended in something the library does not raise on purpose."""
    if isinstance(error, KilledWorker):
        failure = FitError(TOO_BIG)
    else:
        failure = FitError(f"The job ended with an unexpected {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


def lost_its_data(outcome: object, key: object) -> bool:
    """Whether the cluster gave up the data of the job `key`, because too many workers died while they had them at hand."""
    return isinstance(outcome, KilledWorker) and outcome.task != key


def error_from_worker(name: str, message: str) -> Exception:
    """The error that a worker raised, as its own class where that is one of the library's."""
    kind = getattr(errors, name, FitError)
    error: Exception = kind(message)
    return error
