import type { FastifyInstance } from "fastify";
import { publicRoute } from "./access.ts";
import { FlowgateError } from "../errors.ts";

/** What Node-RED has and this service has instead. */
const replaced = [
  [
    "/projects",
    "there are no projects: every deployment is a revision, which flowgate history lists, and flowgate undo and rollback bring back",
  ],
  [
    "/settings/user/keys",
    "there are no SSH keys, which Node-RED has for its projects: keep flows in git with flowgate export and sync",
  ],
] as const;

export function addAbsentRoutes(app: FastifyInstance): void {
  for (const [path, message] of replaced) {
    for (const url of [path, `${path}/*`]) {
      app.all(url, { config: publicRoute }, () => {
        throw new FlowgateError("not_found", message);
      });
    }
  }
  app.setNotFoundHandler(() => {
    throw new FlowgateError(
      "not_found",
      "Node-RED's admin API has no such path here; the API of the service has its own port",
    );
  });
}
