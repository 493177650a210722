# Two stages: the first installs the pinned dependencies and the wheel, the second carries only what runs.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
RUN python -m venv /opt/bartserve
COPY locks/run.txt locks/run.txt
RUN /opt/bartserve/bin/pip install --no-cache-dir --require-hashes -r locks/run.txt
COPY . .
RUN /opt/bartserve/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.11-slim-bookworm
RUN useradd --system --create-home --home-dir /var/lib/bartserve --uid 10001 bartserve \
    && install -d -o bartserve -g bartserve /var/lib/bartserve/cache /var/lib/bartserve/data
COPY --from=build /opt/bartserve /opt/bartserve
ENV PATH=/opt/bartserve/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    XDG_CACHE_HOME=/var/lib/bartserve/cache \
    BARTSERVE_DATA_DIR=/var/lib/bartserve/data
USER bartserve
WORKDIR /var/lib/bartserve
EXPOSE 8000
STOPSIGNAL SIGTERM
CMD ["bartserve", "api", "--host", "0.0.0.0", "--port", "8000"]
