import type { FastifyInstance } from "fastify";
import { explainJsonLimit } from "../../base/json-limit.ts";

/** Makes routes refuse JSON that takes the event loop long to parse, to merge or to write again. */
export function limitJsonBodies(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser("error", "error");
  app.removeContentTypeParser("application/json");
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (request, body: Buffer, parsed) => {
    const error = explainJsonLimit(body, "the body");
    if (error === undefined) {
      void parse(request, body.toString(), parsed);
    } else {
      parsed(error);
    }
  });
}
