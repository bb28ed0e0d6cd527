# The services of Headway, an image each:
#
#   docker build --target coordinator -t headway-coordinator .       (or relay, timers, worker)
#
# An image holds the distributions of its service and what they depend on, at the versions and with the hashes of
# requirements/dev.txt, and runs without root. All of them answer gRPC health checks on port 7710.

FROM python:3.12-slim AS installer
# Certificates from the system's store, so that it can be built behind a proxy that inspects TLS.
ENV UV_SYSTEM_CERTS=1 UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_NO_CACHE=1
RUN python -m venv /opt/headway
ENV VIRTUAL_ENV=/opt/headway PATH=/opt/headway/bin:$PATH
WORKDIR /source
COPY requirements/bootstrap.txt requirements/dev.txt requirements/
RUN python -m venv /opt/uv && /opt/uv/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements/bootstrap.txt
COPY protos protos
COPY services/runtime services/runtime
# uv checks the hashes of constraints; the hatchling that builds our own distributions is constrained as well.
ENV INSTALL="/opt/uv/bin/uv pip install --constraint requirements/dev.txt --build-constraint requirements/dev.txt ./protos ./services/runtime"

FROM installer AS coordinator-installed
COPY services/coordinator services/coordinator
RUN $INSTALL "./services/coordinator[uvloop]"

FROM installer AS relay-installed
COPY services/relay services/relay
RUN $INSTALL "./services/relay[uvloop]"

FROM installer AS timers-installed
COPY services/timers services/timers
RUN $INSTALL "./services/timers[uvloop]"

FROM installer AS worker-installed
COPY services/worker services/worker
RUN $INSTALL "./services/worker[uvloop]"

# What all images have in common, but for the service itself.
FROM python:3.12-slim AS service
RUN useradd --system --uid 10001 --create-home headway
ENV PATH=/opt/headway/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /home/headway
USER headway
EXPOSE 7710
# The check gives the service three seconds by itself; on a busy machine its own start may take longer.
HEALTHCHECK --interval=5s --timeout=30s --start-period=20s --retries=3 \
  CMD ["python", "-m", "headway.runtime.health", "127.0.0.1:7710"]
# SIGTERM drains; HEADWAY_DRAIN_TIMEOUT says for how long.
STOPSIGNAL SIGTERM

FROM service AS coordinator
COPY --from=coordinator-installed /opt/headway /opt/headway
ENV HEADWAY_COORDINATOR_LISTEN=0.0.0.0:7710
ENTRYPOINT ["python", "-m", "headway.coordinator"]
CMD ["serve"]

FROM service AS relay
COPY --from=relay-installed /opt/headway /opt/headway
ENV HEADWAY_RELAY_LISTEN=0.0.0.0:7710
ENTRYPOINT ["python", "-m", "headway.relay"]

FROM service AS timers
COPY --from=timers-installed /opt/headway /opt/headway
ENV HEADWAY_TIMERS_LISTEN=0.0.0.0:7710
ENTRYPOINT ["python", "-m", "headway.timers"]

# Serves the built-in `http` and `python` nodes. For handlers of your own: FROM this image, COPY your modules, name them
# in CMD behind the flags.
FROM service AS worker
COPY --from=worker-installed /opt/headway /opt/headway
ENV HEADWAY_WORKER_LISTEN=0.0.0.0:7710
ENTRYPOINT ["python", "-m", "headway.worker"]
CMD ["--builtin", "http", "--builtin", "python", "--allow-python"]
