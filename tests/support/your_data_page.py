"""Open Your data, upload files and read them."""

import io

import numpy as np
import pandas as pd
from streamlit.testing.v1 import AppTest

from datasets import tables
from pages.lab.upload.file import OpenFile, TableOptions, digest_of, from_table
from pages.your_data import intake
from tests.support import drawn, page
from tests.support.controls import control

# Defaults for a tracking file.
REPAIRS = {"min_score": 0.3, "fill_seconds": 30.0, "drop_outliers": True}


def opened() -> AppTest:
    return page.opened("your_data")


html = drawn.words


def uploaded(name: str, content: bytes) -> AppTest:
    return upload(opened(), name, content)


def upload(app: AppTest, name: str, content: bytes) -> AppTest:
    """Replace the uploaded file."""
    return control(app, "file_uploader", "upload").set_value((name, content, "application/octet-stream")).run()


def waves(n: int, period: float, channels: int = 2, seed: int = 0) -> bytes:
    """Return a table of noisy waves with two alternating speeds, at 10 Hz."""
    noise = np.random.default_rng(seed).normal(0, 0.05, (n, channels))
    phase = np.cumsum(np.where(np.arange(n) // 100 % 2, 2 * np.pi / period, np.pi / period))
    columns = {"time": np.arange(n) / 10}
    columns |= {f"c{j}": np.cos(phase + j) + noise[:, j] for j in range(channels)}
    return pd.DataFrame(columns).round(4).to_csv(index=False).encode()


def read(name: str, content: bytes | None = None) -> OpenFile:
    data = tables.template(name) if content is None else content
    file = io.BytesIO(data)
    return intake.open_file(file, name, digest_of(file))


def fitted(name: str, content: bytes | None = None):
    """Return the data of a file with its guessed column roles."""
    file = read(name, content)
    return from_table(file, TableOptions({c: str(r) for c, r in file.content.roles.items()}))
