"""Options of all commands. Commands themselves are imported when they run, since their libraries take a second."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, get_args

from gdm_core import __version__
from gdm_core.models.parameters import Repeated

NONE = "none"
PORT = 8501
STDOUT = Path("-")


def split_names(text: str) -> list[str]:
    """Split comma-separated names."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _split_answer(text: str) -> tuple[str, str]:
    key, sign, answer = text.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"{text!r} has no '='; write KEY=ANSWER, such as unit=ms")
    return key.strip(), answer.strip()


def stickiness(text: str) -> float | str:
    """Parse a number or the word "learn"."""
    return text if text == "learn" else float(text)


def counts(text: str) -> list[int]:
    """Parse "2-4,8" as [2, 3, 4, 8]."""
    found: list[int] = []
    for part in split_names(text):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} has no number; expected something like 2-6 or 2,4,8")
    return list(dict.fromkeys(found))


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Add options for the table and how to read it."""
    option = parser.add_argument
    option("data", type=Path, help="CSV, TSV, Parquet, NPZ, NPY or XLSX: a row per sample, a column per channel")
    option("--columns", type=split_names, help="channels, comma-separated, in the order of the file (default: guessed)")
    option("--trial-column", metavar="NAME", help=f"column that identifies trials, or '{NONE}' (default: guessed)")
    option("--rate", type=float, metavar="HZ", help="samples per second (default: from a time column, else 1)")
    option("--log", type=split_names, default=[], help="channels to fit as logarithms, comma-separated")
    option("--keep-angles", action="store_true", help="do not fit angles as cosine and sine")
    option("--log-ratio", action="store_true", help="fit all channels as log-ratios, for parts of a whole")
    add_answer_option(parser)
    option("--sheet", help="sheet of a workbook (default: the first with numbers)")


def add_answer_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that answers questions about a file."""
    parser.add_argument(
        "--answer", action="append", default=[], type=_split_answer, metavar="KEY=ANSWER",
        help="answer to a question about the file, such as unit=ms; the error message about it names the choices",
    )  # fmt: skip


def add_scale_option(parser: argparse.ArgumentParser, default: str = "samples") -> None:
    """Add the option for the time scale of states."""
    parser.add_argument(
        "--scale",
        default=default,
        metavar="SECONDS",
        help="fit windows of this length, for activities instead of short movements; 'samples' fits samples, 'auto' compares both "
        f"(default: {default})",
    )


def add_recordings_options(parser: argparse.ArgumentParser) -> None:
    """Add options for reading files of recordings."""
    option = parser.add_argument
    option("--rate", type=float, metavar="HZ", help="samples per second (default: from the files)")
    add_answer_option(parser)
    option(
        "--features",
        choices=["egocentric", "keypoints"],
        default="egocentric",
        help="features of poses (default: egocentric)",
    )


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add options for the model and its latent dimensions."""
    parser.add_argument("--model", help="model name, see `gdm info` (default: gdm; for windows gdm-linear)")
    add_latent_option(parser)


def add_latent_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--latent",
        type=int,
        metavar="D",
        help="latent dimensions, at most the number of channels (default: as many as the data have, for windows 6)",
    )


def add_repeats_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--repeats",
        choices=get_args(Repeated),
        default="auto",
        help="'auto' leaves repeated values out of fits, 'keep' fits them (default: auto)",
    )


def add_jobs_option(parser: argparse.ArgumentParser, about: str = "worker processes") -> None:
    """Add the option for the number of worker processes."""
    parser.add_argument("--jobs", type=int, default=1, help=f"{about} (default: 1)")


def add_fit(commands: Any) -> None:
    parser = commands.add_parser("fit", help="fit a model to a file and save it")
    option = parser.add_argument
    add_data_options(parser)
    add_scale_option(parser)
    add_model_options(parser)
    option("--states", type=int, default=4, metavar="K", help="number of states (default: 4)")
    option("--temperature", type=float, metavar="TAU", help="temperature of the soft states")
    option("--stickiness", type=stickiness, metavar="GAMMA", help="in [0, 1), or 'learn'")
    add_repeats_option(parser)
    option("--seed", type=int, default=0, help="random seed (default: 0)")
    option("--out", type=Path, default=Path("model.safetensors"), help="model file to write")
    option("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run="models.fit")


def add_predict(commands: Any) -> None:
    parser = commands.add_parser(
        "predict",
        help="predict soft states with a saved model",
        description="Writes a table: time (s), p_1..p_K, state (1..K, the most probable), entropy (0 to 1), and observed "
        "(False for samples without any value) if values are missing.",
    )
    option = parser.add_argument
    option("model", type=Path, help="model file written by `fit`")
    add_data_options(parser)
    add_scale_option(parser)
    option("--out", type=Path, help="CSV to write (default: standard output)")
    option("--json", action="store_true", help="print JSON: the table, or a summary with --out")
    parser.set_defaults(run="models.predict")


def add_info(commands: Any) -> None:
    parser = commands.add_parser("info", help="describe the library or a saved model")
    option = parser.add_argument
    option("model", type=Path, nargs="?", help="model file written by `fit`")
    option("--json", action="store_true", help="print JSON")
    parser.set_defaults(run="models.info")


def add_label(commands: Any) -> None:
    parser = commands.add_parser(
        "label",
        help="label every sample of all recordings from a few labelled clips",
        description="MARKS is JSON from the Labelling tab, or a table (CSV, TSV, XLSX) with one row per clip: recording, "
        "start, stop (frames, stop exclusive), label. Recordings without a clip are labelled too.",
    )
    option = parser.add_argument
    option("marks", type=Path, help="labelled clips: JSON, or a table with recording, start, stop, label")
    option("files", type=Path, nargs="+", help="recordings (poses or tables), or folders of them")
    add_recordings_options(parser)
    option("--states", type=int, default=8, metavar="K", help="number of states (default: 8)")
    option("--latent", type=int, metavar="D", help="latent dimensions (default: 6, at most the channels)")
    option("--seed", type=int, default=0, help="random seed (default: 0)")
    option("--out", type=Path, metavar="FILE", help="save the label model to FILE")
    option("--tables", type=Path, metavar="FOLDER", help="write the labels of each recording as CSV")
    option("--propose", type=int, default=3, metavar="N", help="clips to label next (default: 3)")
    option("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run="label.label")


def add_suggest(commands: Any) -> None:
    parser = commands.add_parser(
        "suggest",
        help="recommend a time scale, a model and its number of states",
        description="Fits two halves of the data and scores each fit on the other half. Finished fits are cached, so a "
        "suggestion that was stopped continues.",
    )
    option = parser.add_argument
    add_data_options(parser)
    add_scale_option(parser, "auto")
    option(
        "--models",
        type=split_names,
        help="models to compare, see `gdm info` (default: gdm,arhmm-sticky; for windows gdm-linear)",
    )
    add_latent_option(parser)
    add_repeats_option(parser)
    option("--states", type=counts, default=list(range(1, 10)), metavar="K", help="such as 1-9 or 2,4,8 (default: 1-9)")
    option("--seeds", type=int, default=1, help="fits of each half and setting (default: 1)")
    add_jobs_option(parser)
    option("--json", action="store_true", help="print the recommendation and scores as JSON")
    parser.set_defaults(run="suggest.suggest")


def add_study(commands: Any) -> None:
    parser = commands.add_parser(
        "study",
        help="compare groups of recordings, with their conditions in a sheet",
        description="Fits one model to all recordings (or uses states from another tool) and compares groups with animals "
        "as units: the flow test, then an effect, an interval and a permutation test for each state.",
    )
    option = parser.add_argument
    option("sheet", type=Path, help="CSV or XLSX with columns for file, animal and conditions; or a saved study")
    option("files", type=Path, nargs="*", help="recordings (poses or tables), or folders of them")
    option("--labels", action="store_true", help="the files contain states from another tool, not recordings")
    option("--page", help="sheet of a workbook (default: the first)")
    add_recordings_options(parser)
    add_scale_option(parser)
    add_model_options(parser)
    option("--states", type=int, default=8, metavar="K", help="number of states (default: 8)")
    option("--between", type=split_names, help="column that defines the groups; two for two factors")
    option("--measure", default="usage", help="usage, bouts, mean_bout_s, transitions, ... (default: usage)")
    option("--unit", default="animal", help="column that identifies the units (default: animal)")
    option("--within", help="column that identifies paired sessions")
    option("--blocks", help="permute units only within the values of this column")
    option("--covariates", type=split_names, default=[], help="columns to regress out first")
    option(
        "--planned",
        type=split_names,
        default=[],
        help="columns that may follow from the groups, to adjust for as planned",
    )
    option("--pool-levels", action="store_true", help="test any difference between doses instead of their trend")
    option(
        "--where",
        action="append",
        default=[],
        metavar="COLUMN=VALUE",
        help="use only these recordings; repeat to combine conditions",
    )
    option("--permutations", type=int, default=10_000, help="number of permutations (default: 10000)")
    option("--seed", type=int, default=0, help="random seed (default: 0)")
    option(
        "--counts", action="store_true",
        help="flow test of transition counts instead of rates; recordings must have equal length",
    )  # fmt: skip
    option("--first", type=float, metavar="MINUTES", help="use the first minutes of each recording")
    option("--start", metavar="COLUMN", help="column with the time to start from, in minutes")
    option("--stop", metavar="COLUMN", help="column with the time to stop at, in minutes")
    option("--equal-length", action="store_true", help="cut all recordings to the length of the shortest")
    option("--non-wear", type=float, metavar="MINUTES", help="leave out stretches of at least MINUTES without movement")
    option("--save", type=Path, metavar="FILE", help="save the study to FILE, which can be passed as SHEET later")
    option(
        "--tables",
        type=Path,
        metavar="FOLDER",
        help="write measures, bouts, transitions and results as CSV, also in wide layouts for R and Prism",
    )
    option("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run="study.study")


def add_reproduce(commands: Any) -> None:
    parser = commands.add_parser(
        "reproduce",
        help="repeat the fits of the paper's tables and figures",
        description="'all' runs every fit of the Paper page, on the paper's one simulation and on one for each seed; 'table', "
        "'formula1' and 'mice' those of one table or figure. Finished fits are cached, so a run that was stopped continues. "
        "Figures 3 and 4 use simulated laps and mice, and also the Chinese Grand Prix and CalMS21 if they are in the data "
        "folder.",
    )
    option = parser.add_argument
    option("experiment", help="'all', or a part of the paper such as 'table/soft' or 'mice'")
    option("--seeds", type=int, help="seeds 0..N-1 (default: as in the paper)")
    option("--samples", type=int, default=1000, metavar="T", help="samples per trial (default: 1000)")
    add_jobs_option(parser, "worker processes; use 1 to measure times")
    option(
        "--json",
        type=Path,
        nargs="?",
        const=STDOUT,
        metavar="FILE",
        help="write every score to FILE (or print them); parts of the paper that FILE has and were not run stay",
    )
    parser.set_defaults(run="reproduce.reproduce")


def add_studio(commands: Any) -> None:
    parser = commands.add_parser(
        "studio",
        help="open the dashboard",
        description="Serves the dashboard. Options after -- are passed to Streamlit, such as -- --server.baseUrlPath=gdm.",
    )
    option = parser.add_argument
    option("--port", type=int, default=PORT, help=f"port of the web server (default: {PORT})")
    option(
        "--address",
        default="localhost",
        help="address to listen on; 0.0.0.0 for all network interfaces (default: localhost)",
    )
    option("streamlit", nargs="*", metavar="-- option", help="options for Streamlit")
    parser.set_defaults(run="studio.studio")


def add_workers(commands: Any) -> None:
    parser = commands.add_parser(
        "workers",
        help="run fits for a Dask scheduler",
        description="Runs single-threaded Dask workers for a scheduler (`dask scheduler`). They wait until it starts, and "
        "end with it.",
    )
    option = parser.add_argument
    option("scheduler", help="address of the scheduler, such as tcp://10.0.0.5:8786")
    option("--workers", type=int, help="number of workers (default: one per core, each with at least 1 GiB)")
    option("--memory", help="memory limit of each worker, such as 4GiB (default: an equal share of 70%% of the memory)")
    parser.set_defaults(run="studio.workers")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="gdm", description="Soft states in time series: the Gumbel Dynamical Model and related models."
    )
    parser.add_argument("--version", action="version", version=f"gdm-studio {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    for add in (
        add_fit,
        add_predict,
        add_study,
        add_label,
        add_suggest,
        add_reproduce,
        add_info,
        add_studio,
        add_workers,
    ):
        add(commands)
    return parser
