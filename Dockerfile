# The service as an image: `docker build -t flowgate .`
# deploy/README.md tells how to run it, and how far this file is tested.

# The base has libatomic1, which Node 26 needs, npm's too; Debian's own slim images do not.
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
# Optional packages are not used. No script of a package runs in what becomes the image.
RUN npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund

FROM node:26.10-bookworm-slim
LABEL org.opencontainers.image.title="Flowgate" \
      org.opencontainers.image.description="The administration service of a flow runtime" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.2.0"

WORKDIR /opt/flowgate
COPY --from=packages /packages/node_modules node_modules
COPY --from=build /build/dist/src dist/src
COPY --from=build /build/dist/gen dist/gen
# Where node_modules links to.
COPY --from=build /build/packages/transcoding/dist packages/transcoding
COPY --from=build /build/packages/client/dist packages/client
COPY --from=build /build/packages/npm packages/npm
COPY docs-page docs-page
COPY package.json openapi.json LICENSE ./

# The only folder that it writes to; the root may be read-only. The number is no user of the image's, nor of most hosts.
RUN install -d -o 65532 -g 65532 -m 0700 /var/lib/flowgate
VOLUME /var/lib/flowgate
USER 65532:65532

# All interfaces: then it does not start without a configuration that says who may come in.
# MALLOC_…: memory goes back to the system after large deployments.
ENV FLOWGATE_HOST=0.0.0.0 \
    MALLOC_ARENA_MAX=2 \
    MALLOC_TRIM_THRESHOLD_=131072 \
    FLOWGATE_DATA_DIR=/var/lib/flowgate \
    FLOWGATE_CONFIG=/etc/flowgate/flowgate.yaml
EXPOSE 8080 1880

# Where the configuration sets `tls` or another port: --no-healthcheck, or one of your own.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:8080/healthz').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]

# As process 1 it handles its signals itself, and stops in order.
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "/opt/flowgate/dist/src/cli/main.js"]
CMD ["serve"]
