// Writes openapi.json, which the service serves at /openapi.json and its documentation page shows.
import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { promisify } from "node:util";
import { type DescMethod, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import type { ConnectRouter } from "@connectrpc/connect";
import { UnauthorizedSchema } from "../gen/flowgate/v1/access_pb.ts";
import { gatewayOptions } from "../src/server/pipeline/gateway-options.ts";
import { accessRules, services } from "../src/services/api.ts";
import { openapi, readComments } from "@flowgate/gateway";
import { amend } from "./openapi-amend.ts";
import { examples } from "./openapi-examples.ts";
import { securityOf, securitySchemes } from "./openapi-security.ts";

const root = new URL("..", import.meta.url);
export const documentUrl = new URL("openapi.json", root);

const description = `The administration service of a flow runtime.

Press *Authorize* to log in, or to paste a token. Without configured authentication no token is needed.

The same operations are RPCs over Connect, gRPC and gRPC-Web, at \`/flowgate.v1.<Service>/<Method>\`.`;

/** The body of errors without a message of their own. */
const errorSchema = {
  type: "object",
  properties: {
    code: { type: "string", description: "The machine-readable reason." },
    message: { type: "string", description: "The human-readable message." },
  },
  required: ["code", "message"],
} as const;

/** Returns the text of the document for the current .proto files and access rules. */
export async function formatDocument(): Promise<string> {
  const isPublic = (method: DescMethod): boolean => accessRules.get(method)?.kind === "public";
  const { version, license } = JSON.parse(await readFile(new URL("package.json", root), "utf8")) as PackageJson;
  const document = openapi(
    {
      ...gatewayOptions,
      routes: (router: ConnectRouter) => services.forEach((service) => router.service(service, {})),
    },
    {
      info: { title: "Flowgate", version, description, license: { name: license, identifier: license } },
      comments: readComments(await buildDescriptors()),
      examples,
      errorBody: { mediaType: "application/json", schema: errorSchema },
      errorMessages: (method) => (isPublic(method) ? [] : [UnauthorizedSchema]),
      securitySchemes,
      security: (method) => securityOf(accessRules.get(method)),
    },
  );
  return `${JSON.stringify(amend(document), null, 2)}\n`;
}

type PackageJson = { readonly version: string; readonly license: string };

/** Returns descriptors with comments, which generated code does not contain. */
async function buildDescriptors() {
  const { stdout } = await promisify(execFile)("buf", ["build", "proto", "--as-file-descriptor-set", "-o", "-"], {
    cwd: root,
    encoding: "buffer",
    env: { ...process.env, PATH: `${new URL("node_modules/.bin", root).pathname}:${process.env["PATH"]}` },
    maxBuffer: 16 * 1024 * 1024,
  });
  return fromBinary(FileDescriptorSetSchema, stdout);
}

if (import.meta.main) {
  await writeFile(documentUrl, await formatDocument());
}
