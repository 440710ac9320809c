# The service as an image: `docker build -t flowgate .`
# deploy/README.md describes how to run it, and how far this file is tested.

# The base image has libatomic1, which Node 26 needs, also that of npm. Debian's own slim images lack it.
FROM node:26.10-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
COPY packages packages
RUN npm ci --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json LICENSE ./
COPY scripts scripts
COPY gen gen
COPY src src
RUN npm run build

FROM node:26.10-bookworm-slim AS packages
WORKDIR /packages
COPY package.json package-lock.json .npmrc ./
COPY packages packages
# Optional dependencies are for development only. Install scripts of packages do not run.
RUN npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund
# The packages of this repository are part of the built service.
RUN rm -r node_modules/@flowgate

FROM node:26.10-bookworm-slim
LABEL org.opencontainers.image.title="Flowgate" \
      org.opencontainers.image.description="The administration service of a flow runtime" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.2.0"

# With bubblewrap, flows run in namespaces of their own, where the container may create them. The base image has setpriv and prlimit.
RUN apt-get update && apt-get install --yes --no-install-recommends bubblewrap && rm -r /var/lib/apt/lists/*

WORKDIR /opt/flowgate
COPY --from=packages /packages/node_modules node_modules
COPY --from=build /build/dist/src dist/src
COPY --from=build /build/dist/console dist/console
COPY --from=build /build/dist/licenses.txt dist/licenses.txt
# The target of a link in node_modules.
COPY --from=build /build/packages/npm packages/npm
COPY docs-page docs-page
COPY package.json openapi.json LICENSE ./

# The only folder that the service writes to; the root file system can be read-only. The image, and most hosts, have no user 65532.
RUN install -d -o 65532 -g 65532 -m 0700 /var/lib/flowgate
VOLUME /var/lib/flowgate
USER 65532:65532

# On all interfaces, the service does not start without adminAuth or identity.
# MALLOC_…: memory is returned to the system after large deployments.
ENV FLOWGATE_HOST=0.0.0.0 \
    MALLOC_ARENA_MAX=2 \
    MALLOC_TRIM_THRESHOLD_=131072 \
    FLOWGATE_DATA_DIR=/var/lib/flowgate \
    FLOWGATE_CONFIG=/etc/flowgate/flowgate.yaml
EXPOSE 8080 1880

# Over the Unix socket, which flows can't use up and which needs no certificate. If the configuration moves or disables it, use
# --no-healthcheck or a health check of your own.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
  CMD ["node", "-e", "http.get({ socketPath: process.env.FLOWGATE_DATA_DIR + '/flowgate.sock', path: '/healthz' }, ({ statusCode }) => process.exit(statusCode === 200 ? 0 : 1)).on('error', () => process.exit(1))"]

# As process 1, the service handles the signal itself and drains.
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "/opt/flowgate/dist/src/cli/main.js"]
CMD ["serve"]
