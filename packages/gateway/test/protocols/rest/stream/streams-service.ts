import type { ServiceImpl } from "@connectrpc/connect";
import { StreamsService } from "../../../gen/gatewaytest/v1/streams_pb.ts";
import { type FastifyGatewayPluginOptions } from "../../../../src/adapters/fastify/index.ts";
import { serveStreams, type HttpVersion, type Streams } from "../../../serve-streams.ts";

export type Implementation = Partial<ServiceImpl<typeof StreamsService>>;

export const serve = (
  version: HttpVersion,
  implementation: Implementation,
  options: Omit<FastifyGatewayPluginOptions, "routes"> = {},
): Promise<Streams> =>
  serveStreams(version, { ...options, routes: (router) => router.service(StreamsService, implementation) });

export const ndjson = { "content-type": "application/x-ndjson" };
