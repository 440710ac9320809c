import type { DescMessage } from "@bufbuild/protobuf";
import { enumNames, errorRule, fieldRule } from "../schema/rules.ts";
import { describe, type Comments } from "./comments.ts";
import type { SchemaUse } from "./components.ts";
import type { Response, ResponseHeader, Schema } from "./document.ts";
import type { Schemas } from "./schema.ts";

export type ErrorFormatName = "plain" | "problem" | "status" | "google";

/** The body of errors that a function formats. */
export type ErrorBody = { readonly mediaType: string; readonly schema: Schema };

type NamedBody = { readonly mediaType: string; readonly name: string; readonly schema: Schema };

const code: Schema = { type: "string", description: "The name of the RPC code, such as `not_found`." };
const reason: Schema = { type: "string", description: "The machine-readable reason, if it says more than the code." };
const message: Schema = { type: "string", description: "The human-readable message." };
const details: Schema = {
  type: "array",
  description: "Messages of google.rpc or other types, with their type in `@type`.",
  // Without properties, since generated classes have the declared ones only, or both `@type` and their own name for it.
  items: { type: "object", additionalProperties: true },
};

/** The object below the key `error` in Google's APIs. */
const googleError: Schema = {
  type: "object",
  description: "AIP-193.",
  properties: {
    code: { type: "integer", format: "int32", description: "The HTTP status." },
    message,
    status: { type: "string", description: "The name of a google.rpc.Code." },
    details,
  },
  required: ["code", "message", "status"],
};

const bodies: Readonly<Record<ErrorFormatName, NamedBody>> = {
  plain: {
    mediaType: "application/json",
    name: "Error",
    schema: { type: "object", properties: { code, message, reason, details }, required: ["code", "message"] },
  },
  problem: {
    mediaType: "application/problem+json",
    name: "Problem",
    schema: {
      type: "object",
      description: "RFC 9457.",
      properties: {
        type: { type: "string", format: "uri-reference" },
        title: { type: "string" },
        status: { type: "integer", format: "int32" },
        detail: message,
        code,
        reason,
        details,
      },
      required: ["type", "title", "status", "detail", "code"],
    },
  },
  status: {
    mediaType: "application/json",
    name: "Status",
    schema: {
      type: "object",
      description: "google.rpc.Status.",
      properties: { code: { type: "integer", format: "int32", description: "A google.rpc.Code." }, message, details },
      required: ["code", "message", "details"],
    },
  },
  google: {
    mediaType: "application/json",
    name: "Error",
    schema: { type: "object", properties: { error: googleError }, required: ["error"] },
  },
};

export type ErrorResponses = {
  add(responses: Map<string, Response>, messages: readonly DescMessage[]): void;
  /** The schema of an operation's errors as JSON within a stream. `isWrapped`: its format has them below a key `error`. */
  inStream(messages: readonly DescMessage[], isWrapped: boolean): Schema;
};

/** Creates the descriptions of errors. The messages have the `error` option: a detail of such a type is the whole body. */
export function createErrorResponses(
  body: ErrorFormatName | ErrorBody,
  schemas: Schemas,
  comments: Comments,
  use: SchemaUse,
): ErrorResponses {
  const { mediaType, name, schema } = typeof body === "string" ? bodies[body] : { name: "Error", ...body };

  const responseOf = (message: DescMessage, reasons: readonly string[] = []): Response => {
    const headers: Record<string, ResponseHeader> = {};
    for (const field of message.fields) {
      const { header } = fieldRule(field);
      if (header !== "") {
        headers[header] = { ...describe(comments(field)), schema: schemas.value(field, use) };
      }
    }
    return {
      description:
        reasons.length > 0 ? reasons.map((reason) => `\`${reason}\``).join(", ") : (comments(message) ?? message.name),
      ...(Object.keys(headers).length === 0 ? {} : { headers }),
      ...(hasBody(message) ? { content: { "application/json": { schema: schemas.message(message, use) } } } : {}),
    };
  };

  /** A schema for any of the messages and of `other`. */
  const anyOf = (messages: readonly DescMessage[], other: readonly Schema[]): Schema => {
    const all = [...messages.map((message) => schemas.message(message, use)), ...other];
    return all.length === 1 ? (all[0] as Schema) : { anyOf: all };
  };

  return {
    inStream(messages, isWrapped) {
      // An error that is not JSON is sent in the plain format there.
      const json = /[/+]json$/.test(mediaType) ? schemas.named(name, schema) : bodies.plain.schema;
      const other = body === "google" && isWrapped ? googleError : json;
      return anyOf(messages.filter(hasBody), [other]);
    },
    add(responses, messages) {
      const alternatives: DescMessage[] = [];
      for (const message of messages) {
        const rule = errorRule(message);
        if (rule === undefined) {
          throw new Error(`${message.typeName} has no (flowgate.gateway.v1.error) option`);
        }
        const byStatus = rule.status === 0 ? reasonsByStatus(message, rule.reason) : [[rule.status, []] as const];
        for (const [status, reasons] of byStatus) {
          const response = responseOf(message, reasons);
          const other = responses.get(String(status));
          responses.set(String(status), other === undefined ? response : mergeResponses(other, response));
        }
        if (hasBody(message)) {
          alternatives.push(message);
        }
      }
      const plain = schemas.named(name, schema);
      const content = { [mediaType]: { schema: plain } };
      if (alternatives.length > 0) {
        content["application/json"] = { schema: anyOf(alternatives, mediaType === "application/json" ? [plain] : []) };
      }
      responses.set("default", { description: "Any other error.", content });
    },
  };
}

function mergeResponses(one: Response, other: Response): Response {
  const headers = { ...one.headers, ...other.headers };
  const content = { ...one.content };
  for (const [type, { schema }] of Object.entries(other.content ?? {})) {
    const before = content[type]?.schema;
    content[type] = before === undefined ? { schema: schema ?? {} } : { schema: { anyOf: [before, schema] } };
  }
  return {
    description: `${one.description}\n\nOr: ${other.description}`,
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
    ...(Object.keys(content).length === 0 ? {} : { content }),
  };
}

function hasBody(message: DescMessage): boolean {
  return message.fields.some((field) => fieldRule(field).header === "");
}

function reasonsByStatus(message: DescMessage, name: string): [status: number, reasons: string[]][] {
  const field = message.fields.find((each) => each.name === name);
  if (field?.fieldKind !== "enum") {
    return [];
  }
  const { rules, nameOf } = enumNames(field.enum);
  const byStatus = Map.groupBy(
    [...rules].filter(([, { status }]) => status !== 0),
    ([, { status }]) => status,
  );
  return [...byStatus].map(([status, values]) => [status, values.map(([number]) => nameOf.get(number) ?? "")]);
}
