import {
  create,
  createRegistry,
  toJson,
  type DescMessage,
  type JsonObject,
  type MessageShape,
} from "@bufbuild/protobuf";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { BadRequestSchema, ErrorInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import { createNodeHandler } from "../../../src/adapters/node/index.ts";
import { GadgetSchema, GadgetsService, PartSchema, type Gadget } from "../../gen/gadgets/v1/gadgets_pb.ts";

/** The types that the Any fields contain. */
const registry = createRegistry(PartSchema);

/** The options of the handler that the document depends on. */
export const options = { streams: { preferred: "json" } } as const;

/** A server of GadgetsService. */
export type GadgetsServer = AsyncDisposable & {
  readonly url: string;
  /** The requests that it received, in JSON, by the name of the RPC. */
  readonly received: Record<string, JsonObject[]>;
};

export async function openGadgetsServer(): Promise<GadgetsServer> {
  const received: GadgetsServer["received"] = {};
  const server = createServer(createNodeHandler({ ...options, routes: (router) => serveGadgets(router, received) }));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

function serveGadgets(router: ConnectRouter, received: GadgetsServer["received"]): void {
  const gadgets = new Map<string, Gadget>();
  const record = <Desc extends DescMessage>(rpc: string, schema: Desc, request: MessageShape<Desc>): void => {
    (received[rpc] ??= []).push(toJson(schema, request, { registry }) as JsonObject);
  };
  router.service(GadgetsService, {
    saveGadget(request) {
      record("SaveGadget", GadgetsService.method.saveGadget.input, request);
      const gadget = { ...(request.gadget ?? create(GadgetSchema)), name: request.name };
      gadgets.set(request.name, gadget);
      return gadget;
    },
    getGadget(request) {
      record("GetGadget", GadgetsService.method.getGadget.input, request);
      const gadget = gadgets.get(request.name);
      if (gadget === undefined) {
        throw notFound(request.name);
      }
      return gadget;
    },
    checkGadget(gadget) {
      record("CheckGadget", GadgetSchema, gadget);
      return { gadget };
    },
    addPart(part) {
      record("AddPart", PartSchema, part);
      return part;
    },
    findGadgets(request) {
      record("FindGadgets", GadgetsService.method.findGadgets.input, request);
      return { gadgets: [...gadgets.values()], nextPageToken: "next" };
    },
    listNames(request) {
      record("ListNames", GadgetsService.method.listNames.input, request);
      const { text, small, large, ratio, flag, colour } = request;
      return { names: [text, small, large, ratio, flag, colour].map(String) };
    },
    getHeaders(request) {
      record("GetHeaders", GadgetsService.method.getHeaders.input, request);
      return { pace: request.pace, count: request.count };
    },
    sendForm(request) {
      record("SendForm", GadgetsService.method.sendForm.input, request);
      return { form: request };
    },
    async *watchGadgets(request) {
      record("WatchGadgets", GadgetsService.method.watchGadgets.input, request);
      for (let number = 1; number <= request.count; number++) {
        yield { label: `part ${number}`, weight: BigInt(number) << 53n };
      }
    },
    deleteGadget(request) {
      record("DeleteGadget", GadgetsService.method.deleteGadget.input, request);
      gadgets.delete(request.name);
      return {};
    },
  });
}

function notFound(name: string): ConnectError {
  return new ConnectError(`there is no gadget ${name}`, Code.NotFound, undefined, [
    { desc: ErrorInfoSchema, value: { reason: "GADGET_NOT_FOUND", domain: "gadgets.example", metadata: { name } } },
    { desc: BadRequestSchema, value: { fieldViolations: [{ field: "name", description: "is unknown" }] } },
  ]);
}
