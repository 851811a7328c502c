# One image for the dashboard, a scheduler and its workers; see docs/performance.md and compose.yaml.
FROM python:3.11-slim AS build
WORKDIR /source
COPY requirements.txt .
RUN python -m venv /opt/gdm && /opt/gdm/bin/pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu -r requirements.txt
COPY . .
# The dependencies are those of requirements.txt, to the last digit: what pyproject.toml allows besides is not asked for.
RUN /opt/gdm/bin/pip install --no-cache-dir --no-deps .

FROM python:3.11-slim
RUN useradd --uid 10001 --create-home gdm && mkdir /data && chown gdm /data
COPY --from=build /opt/gdm /opt/gdm
ENV PATH=/opt/gdm/bin:$PATH PYTHONUNBUFFERED=1 GDM_DATA_DIR=/data NUMBA_CACHE_DIR=/data/compiled
USER gdm
WORKDIR /data
# Compiled loops are cached in the data folder. On another kind of processor they are compiled again.
RUN python -m gdm_core.models.warm
# Finished fits, FastF1's downloads and converted recordings: mount it to keep them.
VOLUME /data
EXPOSE 8501
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=4)"]
CMD ["gdm", "studio", "--address", "0.0.0.0"]
