import { createHash, hash, randomBytes } from "node:crypto";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { CredentialsSchema } from "../../gen/flowgate/v1/flows_pb.ts";
import {
  type Decrypt,
  mergeCredentials,
  placeholder,
  type SubmittedCredentials,
  type SubmittedSets,
  findTypes,
  type FlowsDocument,
  isJsonObject,
} from "@flowgate/flows";
import type { ProposalContent, ProposedDeployment, ProposedModule } from "../store/proposal-store.ts";
import type { Change } from "./deployment.ts";

type Proposed = {
  readonly deploymentType: ProposedDeployment["deploymentType"];
  readonly flows: FlowsDocument;
  readonly modules: readonly ProposedModule[];
  readonly submitted: SubmittedCredentials;
};

export function proposedChange({ deploymentType, flows, modules, submitted }: Proposed, decrypt: Decrypt): Change {
  return {
    cause: "deployment",
    deploymentType,
    apply({ credentials: current }) {
      const credentials = mergeCredentials({
        ...submitted,
        findTypes: (ids) => findTypes(flows, ids),
        current,
        decrypt,
      });
      return { flows, credentials, submitted, modules };
    },
    identity: () => [],
  };
}

/** A new id, in hexadecimal, so that it does not begin with a hyphen like the flags of a command line. */
export function createProposalId(): string {
  return randomBytes(8).toString("hex");
}

/**
 * The SHA-256 of a JSON array with all that is proposed: id, base, user, token, options, the SHA-256 of the flows and of the text with the
 * credentials, which can't be guessed from it, since that contains random bytes, and modules, if there are any.
 */
export function digestProposal(
  {
    id,
    base,
    by,
    token,
    deploymentType,
    message,
    waitMs,
    undoOnFailure,
    maxErrors,
    modules,
  }: Omit<ProposedDeployment, "digest">,
  { flows, credentials }: ProposalContent,
): string {
  const content = [createHash("sha256").update(flows.json).digest("hex"), hash("sha256", credentials)];
  const options = [deploymentType, message, waitMs, undoOnFailure, maxErrors];
  const named = modules.length === 0 ? [] : [modules.map(({ name, version, integrity }) => [name, version, integrity])];
  // JSON.stringify writes null for undefined items.
  return hash("sha256", JSON.stringify([id, base, by, token?.id, ...options, ...content, ...named]));
}

type Stored = {
  readonly salt: string;
  readonly inline: [string, [string, string][]][];
  readonly topLevel: string | null;
};

export function encodeSets({ nodes, encrypted }: SubmittedSets): Uint8Array {
  const message = create(CredentialsSchema, {
    nodes: Object.fromEntries(
      Object.entries(nodes).map(([id, { values, map }]) => [id, { values, ...(map !== undefined && { map }) }]),
    ),
    ...(encrypted !== undefined && { encrypted }),
  });
  return toBinary(CredentialsSchema, message);
}

/** The credentials of a request as text, with random bytes. */
export function formatSubmitted({ inline, topLevel }: SubmittedCredentials): string {
  return JSON.stringify({
    salt: randomBytes(32).toString("base64url"),
    // Entries instead of objects, because "__proto__" is a valid node id.
    inline: Array.from(inline, ([id, set]) => [id, [...set]]),
    topLevel: topLevel === undefined ? null : Buffer.from(encodeSets(topLevel)).toString("base64"),
  } satisfies Stored);
}

export function parseSubmitted(text: string): SubmittedCredentials {
  const { inline, topLevel } = JSON.parse(text) as Stored;
  return {
    inline: new Map(inline.map(([id, set]) => [id, new Map(set)])),
    topLevel: topLevel === null ? undefined : fromBinary(CredentialsSchema, Buffer.from(topLevel, "base64")),
  };
}

/**
 * The change as shown to reviewers: all submitted credentials have other, unique values, so that a comparison shows
 * them as changed. Otherwise it would reveal to the proposer whether credentials were guessed.
 */
export function maskedChange({ submitted, ...proposed }: Proposed, decrypt: Decrypt): Change {
  const mask = randomBytes(16).toString("hex");
  const change = proposedChange({ ...proposed, submitted: maskSubmitted(submitted, mask) }, decrypt);
  return {
    ...change,
    async apply(base) {
      const content = await change.apply(base);
      // Encrypted ones, which replace all others, are known only now.
      return submitted.topLevel?.encrypted === undefined
        ? content
        : { ...content, credentials: maskSets(content.credentials, () => mask) };
    },
  };
}

function maskSubmitted({ inline, topLevel }: SubmittedCredentials, mask: string): SubmittedCredentials {
  // These values remove or keep a credential.
  const maskValue = (value: string): string => (value === "" || value === placeholder ? value : mask);
  return { inline: maskSets(inline, maskValue), topLevel: topLevel && maskNodes(topLevel, () => mask) };
}

function maskSets<Value>(
  sets: ReadonlyMap<string, ReadonlyMap<string, Value>>,
  maskValue: (value: Value) => string,
): SubmittedCredentials["inline"] {
  return new Map(
    Array.from(sets, ([id, set]) => [id, new Map(Array.from(set, ([name, value]) => [name, maskValue(value)]))]),
  );
}

function maskNodes({ nodes, encrypted }: SubmittedSets, mask: () => string): SubmittedSets {
  const maskAll = (values: object): { [name: string]: string } =>
    Object.fromEntries(
      Object.entries(values).map(([name, value]) => [name, typeof value === "string" ? mask() : value]),
    );
  return {
    nodes: Object.fromEntries(
      Object.entries(nodes).map(([id, { values, map }]) => [
        id,
        { values: maskAll(values), map: map !== undefined && isJsonObject(map) ? maskAll(map) : undefined },
      ]),
    ),
    encrypted,
  };
}
