import { create, toBinary } from "@bufbuild/protobuf";
import { ConnectError, createClient } from "@connectrpc/connect";
import { type FlowModule, FlowsService, type Node, SetFlowsRequestSchema } from "@flowgate/client";
import { createTransport } from "../../api/transport.ts";
import { combine, type Combined, type Target } from "./combine.ts";
import { SourceError, type SourceProblem } from "./source-problem.ts";
import { locateProblem, parseSource, type Source } from "./source.ts";

// Reads and encodes flows apart from the page, which would not respond while it does so: flows may have many megabytes.

export type WorkerRequest =
  | { readonly action: "read"; readonly input: string | Blob }
  | { readonly action: "combine"; readonly target: Target }
  | { readonly action: "locate"; readonly message: string };

/** What is shown of flows that were read. */
export type Summary = {
  readonly nodeCount: number;
  readonly tabCount: number;
  readonly rev: string | undefined;
  readonly hasCredentials: boolean;
  readonly modules: readonly FlowModule[];
  /** What they probably do to the active flows. */
  readonly target: Target;
};

/** Flows to be planned and deployed. */
export type Prepared = {
  /** The fields of the requests that contain them, encoded: `flows` and `credentials`. */
  readonly fields: Blob;
  /** The revision that they are a change of, if that is known. */
  readonly rev: string | undefined;
};

export type WorkerReply =
  | { readonly value: Summary | Prepared | SourceProblem | undefined }
  | { readonly problems: readonly SourceProblem[] }
  | { readonly message: string };

let source: Source | undefined;
let combined: Combined | undefined;

addEventListener("message", ({ data, ports }: MessageEvent<WorkerRequest>) => {
  void reply(data).then((message) => ports[0]?.postMessage(message));
});

async function reply(request: WorkerRequest): Promise<WorkerReply> {
  try {
    return { value: await carryOut(request) };
  } catch (error) {
    return error instanceof SourceError
      ? { problems: error.problems }
      : { message: ConnectError.from(error).rawMessage };
  }
}

async function carryOut(request: WorkerRequest): Promise<Summary | Prepared | SourceProblem | undefined> {
  switch (request.action) {
    case "read":
      source = undefined;
      source = parseSource(typeof request.input === "string" ? request.input : await request.input.text());
      return summarize(source);
    case "combine":
      return prepare(assertRead(source), request.target);
    case "locate":
      return locateProblem(assertRead(source).text, request.message, (index) => combined?.paths[index]);
  }
}

function assertRead(read: Source | undefined): Source {
  if (read === undefined) {
    throw new TypeError("no flows were read");
  }
  return read;
}

async function prepare(read: Source, target: Target): Promise<Prepared> {
  // The nodes of a part are combined with those that are active at the moment.
  const active = target === "all" ? undefined : await createClient(FlowsService, createTransport()).getFlows({});
  combined = combine(read, active?.flows ?? [], target);
  const { flows, credentials } = combined;
  const request = create(SetFlowsRequestSchema, { flows: [...flows], ...(credentials && { credentials }) });
  return { fields: new Blob([toBinary(SetFlowsRequestSchema, request)]), rev: active?.rev ?? read.rev };
}

function summarize({ nodes, rev, credentials, modules, isWhole }: Source): Summary {
  const tabCount = nodes.filter(({ node }) => node.type === "tab").length;
  return {
    nodeCount: nodes.length,
    tabCount,
    rev,
    modules,
    hasCredentials: credentials !== undefined || nodes.some(({ node }) => hasCredentials(node)),
    target: isWhole || tabCount > 1 || nodes.length === 0 ? "all" : tabCount === 1 ? "replace" : "copies",
  };
}

function hasCredentials({ credentials }: Node): boolean {
  return credentials !== undefined && (credentials.map !== undefined || Object.keys(credentials.values).length > 0);
}
