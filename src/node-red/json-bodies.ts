import type { FastifyInstance } from "fastify";
import { scanStructure } from "@flowgate/gateway/json";
import { FlowgateError } from "../errors.ts";

/** A larger body is not JSON that a route of the listener parses: flows are read by the gateway. */
const maxBytes = 1024 * 1024;

/** Arrays, objects and their members. Parsing a megabyte of nothing else takes ten times as long as parsing flows of that size. */
const maxValues = 65_536;

/** The same as in flows. */
const maxDepth = 100;

/** Makes routes refuse JSON that takes the event loop long to parse, to merge or to write again. */
export function limitJsonBodies(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser("error", "error");
  app.removeContentTypeParser("application/json");
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (request, body: Buffer, parsed) => {
    const error = explainLimit(body);
    if (error === undefined) {
      void parse(request, body.toString(), parsed);
    } else {
      parsed(error);
    }
  });
}

function explainLimit(body: Buffer): FlowgateError | undefined {
  if (body.length > maxBytes) {
    return new FlowgateError("payload_too_large", `the body may have at most ${maxBytes} bytes of JSON`);
  }
  const { commas, containers, depth } = scanStructure(body);
  if (depth > maxDepth) {
    return new FlowgateError("invalid_argument", `the body is nested more than ${maxDepth} levels deep`);
  }
  return commas + containers > maxValues
    ? new FlowgateError("payload_too_large", `the body may have at most ${maxValues} values: send less at once`)
    : undefined;
}
