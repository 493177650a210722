# Two stages: the first installs the pinned dependencies and the wheel, the second has only run-time files.
# docker build --build-arg EXTRAS=mlflow . adds extras: mlflow, mcp, or both, by a comma.
ARG PYTHON=python:3.11.13-slim-bookworm
FROM ${PYTHON} AS build
WORKDIR /src
RUN python -m venv /opt/bartserve
COPY locks/run.txt locks/run.txt
RUN /opt/bartserve/bin/pip install --no-cache-dir --require-hashes --no-deps -r locks/run.txt
COPY . .
ARG EXTRAS=""
RUN /opt/bartserve/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
    # Extras in the versions of locks/dev.txt, which has all of them.
    && sed -n 's/ *\\$//;/^[a-z0-9]/p' locks/dev.txt > /tmp/pins \
    && if [ -n "$EXTRAS" ]; then /opt/bartserve/bin/python -m pip install --no-cache-dir -c /tmp/pins "bartserve[$EXTRAS]"; fi \
    # Cached kernels are found by the modification times of their sources, which layers round to seconds.
    && find /opt/bartserve -path '*/sampler/*' -name '*.py' -exec touch --date=@1700000000 {} + \
    && /opt/bartserve/bin/python -m compileall -q /opt/bartserve/lib/python3.11/site-packages/sampler

FROM ${PYTHON}
RUN useradd --system --create-home --home-dir /var/lib/bartserve --uid 10001 bartserve \
    && install -d -o bartserve -g bartserve /opt/kernels
COPY --from=build /opt/bartserve /opt/bartserve
ENV PATH=/opt/bartserve/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    BARTSERVE_KERNELS=baseline
USER bartserve
# Compiled for a baseline of nearly every server; other processors compile their own kernels at the first start.
RUN XDG_CACHE_HOME=/opt/kernels bartserve warm
ENV XDG_CACHE_HOME=/var/lib/bartserve/cache \
    BARTSERVE_KERNELS_SEED=/opt/kernels/bartserve \
    BARTSERVE_DATA_DIR=/var/lib/bartserve/data \
    MPLCONFIGDIR=/tmp/matplotlib
WORKDIR /var/lib/bartserve
EXPOSE 8000
STOPSIGNAL SIGTERM
CMD ["bartserve", "api", "--host", "0.0.0.0", "--port", "8000"]
