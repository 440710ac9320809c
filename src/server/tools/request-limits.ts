import type { ContextValues } from "@connectrpc/connect";
import { smallBodyBytes } from "@flowgate/gateway/server";
import { FlowgateError } from "@flowgate/flows/errors";
import type { FastifyReply, FastifyRequest } from "fastify";
import { clientKeyOf, peerKey } from "../../auth/caller.ts";
import type { Observer } from "../../telemetry/observer.ts";
import { createClientCounter } from "../http/client-counter.ts";
import type { MemoryBudget, MemoryReservation } from "../memory/memory-budget.ts";

type RequestLimitsOptions = {
  /** The memory budget that request bodies of all listeners share. Undefined: no limit. */
  readonly memory: MemoryBudget | undefined;
  readonly observer: Pick<Observer, "callShed">;
};

/** Requests in flight: of callers that were checked, and of all others. */
const limits = { checked: 128, open: 128 } as const;

/** Of those to public routes, for each source: whose client reads slowly takes the time of a response. */
const openOfSource = 32;

/** Rejects with `overloaded`. `values` are those of the caller, who was checked before. */
export type LimitRequest = (
  request: FastifyRequest,
  reply: FastifyReply,
  values: ContextValues,
  isPublic: boolean,
) => Promise<void>;

/**
 * Limits how many requests are in flight, and the memory that they take. Requests to public routes are counted apart, so that they can't keep
 * others out; their bodies are short.
 */
export function createRequestLimits({ memory, observer }: RequestLimitsOptions): LimitRequest {
  const counts = { checked: 0, open: 0 };
  // Addresses are those of clients, not of proxies.
  const sources = createClientCounter(openOfSource, () => false);
  return async (request, reply, values, isPublic) => {
    if (reply.raw.destroyed) {
      // The client has disconnected while its caller was checked: nothing would release what is counted from here on.
      reply.hijack();
      return;
    }
    const kind = isPublic ? "open" : "checked";
    const isFull = counts[kind] >= limits[kind];
    const release = isPublic && !isFull ? sources.admit(request.ip) : undefined;
    if (isFull || (isPublic && release === undefined)) {
      observer.callShed(isFull ? "in_flight" : "in_flight_per_source");
      throw new FlowgateError("overloaded", "too many requests are in progress: try again later", {
        retryAfterMs: 1000,
      });
    }
    counts[kind] += 1;
    reply.raw.once("close", () => {
      counts[kind] -= 1;
      release?.();
    });
    if (memory !== undefined && !isPublic) {
      await reserveMemory(memory, request, reply, values);
    }
  };
}

/** A response is kept as a document and as what is sent of it. */
const responseFactor = 2;

/** Reserves the memory of a body before it is read, and lets services reserve that of documents. */
async function reserveMemory(
  memory: MemoryBudget,
  request: FastifyRequest,
  reply: FastifyReply,
  values: ContextValues,
): Promise<void> {
  const reservation = memory.open(clientKeyOf(request.ip));
  let isClosed = false;
  reply.raw.once("close", () => {
    isClosed = true;
    reservation.close();
  });
  let documentBytes = 0;
  values.set(peerKey, {
    ...values.get(peerKey),
    reserveDocument(bytes) {
      documentBytes += bytes;
      return bytes > smallBodyBytes ? reservation.receive(documentBytes * responseFactor) : undefined;
    },
    retainMemory: () => reservation.retain(),
    documentDecoded: (bytes) => reservation.decoded(bytes),
  });
  try {
    await reserveBody(request, reservation);
  } catch (error) {
    if (!isClosed) {
      throw error;
    }
    // Nobody waits for a response.
    reply.hijack();
  }
}

/** Of a compressed body, or one of unknown length, the largest one that the route takes. A longer one is refused unread. */
function reserveBody(
  { headers, routeOptions: { bodyLimit } }: FastifyRequest,
  reservation: MemoryReservation,
): Promise<void> | undefined {
  const { "content-length": length = "0", "content-encoding": encoding = "identity" } = headers;
  if (Number(length) > bodyLimit) {
    return undefined;
  }
  const isKnown = headers["transfer-encoding"] === undefined && encoding === "identity";
  const bytes = isKnown ? Number(length) : bodyLimit;
  if (bytes <= smallBodyBytes) {
    return undefined;
  }
  // Other bodies, such as packages, are not decoded.
  const isDecoded = headers["content-type"]?.toLowerCase().includes("json") === true;
  return isDecoded ? reservation.decode(bytes) : reservation.receive(bytes);
}
