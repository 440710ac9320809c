import type { DescMessage } from "@bufbuild/protobuf";
import { MethodRuleSchema } from "../../gen/flowgate/gateway/v1/annotations_pb.ts";
import { HttpRuleSchema } from "../../gen/google/api/http_pb.ts";
import { contentEncodings } from "#platform/compression";
import type { CorsOptions } from "../http/cors.ts";
import type { JsonOptions } from "../json/json-options.ts";
import {
  aBoolean,
  aFunction,
  aNumber,
  anObject,
  arrayOf,
  either,
  oneOf,
  required,
  type ChecksOf,
  type OptionCheck,
  type OptionChecks,
} from "./check-options.ts";
import {
  allProtocols,
  MAX_TIMER_MS,
  type CompressionOptions,
  type GatewayOptions,
  type HealthOptions,
} from "./options.ts";

/** Readers and writers are recursive: a Struct in an Any exhausts the stack at a depth of about 900. */
const MAX_DEPTH = 500;

const bytes = aNumber(0, Number.MAX_SAFE_INTEGER);
const strings = arrayOf("strings", (item) => typeof item === "string");

const abortSignal: OptionCheck = {
  allowed: "an AbortSignal",
  accepts: (value) => isObject(value) && typeof value["aborted"] === "boolean",
};

const registry: OptionCheck = {
  allowed: "a registry of protobuf-es",
  accepts: (value) => isObject(value) && value["kind"] === "registry",
};

const compression: ChecksOf<CompressionOptions> = {
  encodings: arrayOf(
    contentEncodings.map((encoding) => `"${encoding}"`).join(", "),
    (item) => typeof item === "string" && contentEncodings.some((encoding) => encoding === item),
  ),
  minBytes: bytes,
  streams: aBoolean,
};

const cors: ChecksOf<CorsOptions> = {
  origins: required(either(strings, aFunction)),
  credentials: aBoolean,
  allowHeaders: strings,
  exposeHeaders: strings,
  maxAgeSeconds: aNumber(0, Number.MAX_SAFE_INTEGER),
};

const streams: ChecksOf<NonNullable<GatewayOptions["streams"]>> = {
  heartbeatMs: aNumber(0, MAX_TIMER_MS),
  preferred: oneOf("ndjson", "sse", "json"),
  json: oneOf("array", "results", "lines"),
};

const jsonOptions: ChecksOf<JsonOptions> = {
  ignoreUnknownFields: aBoolean,
  ignoreEnumCase: aBoolean,
  alwaysEmitImplicit: aBoolean,
  emitUnsetMessages: aBoolean,
  enumAsInteger: aBoolean,
  int64AsNumber: aBoolean,
  useProtoFieldName: aBoolean,
};

const protocolNames = arrayOf(allProtocols.map((protocol) => `"${protocol}"`).join(", "), (item) =>
  allProtocols.some((protocol) => protocol === item),
);

/** Without a protocol nothing would be served. */
const protocols: OptionCheck = {
  ...protocolNames,
  accepts: (value) => protocolNames.accepts(value) && (value as readonly unknown[]).length > 0,
};

const health: ChecksOf<HealthOptions> = { serves: aFunction, onChange: aFunction, admitWatch: aFunction };

const anything: OptionCheck = { allowed: "any value", accepts: () => true };

const binding = anObject(initializerChecks(HttpRuleSchema));

/** A rule is a google.api.HttpRule, or its initializer, with the options of the method. */
const rule = anObject({
  ...initializerChecks(HttpRuleSchema),
  additionalBindings: arrayOf("bindings", isObject, binding),
  options: anObject(initializerChecks(MethodRuleSchema)),
  selector: required({ allowed: "a string", accepts: (value) => typeof value === "string" }),
});

/**
 * The checks of a message's initializer: of the names of its fields and of nested messages' fields, not of their
 * values. protobuf-es ignores unknown ones.
 */
function initializerChecks(desc: DescMessage): OptionChecks {
  const names = ["$typeName", "$unknown"].map((name) => [name, anything] as const);
  return Object.fromEntries([
    ...names,
    ...desc.members.map((member) => [member.localName, memberCheck(member)] as const),
  ]);
}

function memberCheck(member: DescMessage["members"][number]): OptionCheck {
  if (member.kind === "oneof") {
    const cases = oneOf(...member.fields.map(({ localName }) => localName));
    return anObject({ case: cases, value: anything });
  }
  const { message, parent } = member;
  if (message === undefined || message === parent) {
    return anything;
  }
  const nested = anObject(initializerChecks(message));
  return member.fieldKind === "list" ? arrayOf("objects", isObject, nested) : nested;
}

export const gatewayOptionChecks: ChecksOf<GatewayOptions> = {
  routes: required(aFunction),
  protocols,
  health: either(aBoolean, anObject(health)),
  reflection: aBoolean,
  requestPathPrefix: {
    allowed: 'a path that begins with "/" and does not end with it, such as "/api"',
    accepts: (value) => typeof value === "string" && /^(?:\/[^/?#]+)*$/.test(value),
  },
  interceptors: arrayOf("functions", (item) => typeof item === "function"),
  requestGate: aFunction,
  mapError: aFunction,
  onError: aFunction,
  rules: arrayOf("rules", isObject, rule),
  strictTemplates: aBoolean,
  googleTemplates: aBoolean,
  unknownQuery: oneOf("reject", "ignore"),
  boundQuery: oneOf("reject", "ignore"),
  ignoredQuery: strings,
  ignoreTrailingSlash: aBoolean,
  fieldMaskFromBody: aBoolean,
  readMaxBytes: bytes,
  maxDepth: aNumber(1, MAX_DEPTH),
  prototypeKeys: oneOf("accept", "reject"),
  deferred: arrayOf("methods of protobuf-es", (item) => isObject(item) && item["kind"] === "rpc"),
  maxTimeoutMs: aNumber(1, MAX_TIMER_MS),
  shutdownSignal: abortSignal,
  streams: anObject(streams),
  compression: either(aBoolean, anObject(compression)),
  registry,
  jsonOptions: anObject(jsonOptions),
  errorDomain: { allowed: "a string", accepts: (value) => typeof value === "string" },
  cors: anObject(cors),
  errors: either(oneOf("plain", "problem", "status", "google"), aFunction),
};

/** The same for a gateway of REST alone, which would ignore the others. */
export const restOptionChecks: OptionChecks = Object.fromEntries(
  Object.entries(gatewayOptionChecks).filter(([name]) => !["protocols", "health", "reflection"].includes(name)),
);

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
