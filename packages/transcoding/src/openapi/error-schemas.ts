import type { DescMessage } from "@bufbuild/protobuf";
import { enumNames, errorRule, fieldRule } from "../schema/rules.ts";
import type { Comments } from "./comments.ts";
import { responseForm } from "./components.ts";
import type { Response, ResponseHeader, Schema } from "./document.ts";
import { describe, type Schemas } from "./schema.ts";

/** The body of an error that has no shape of its own, as the transcoder's option `errors` says; or its schema. */
export type ErrorBody = "plain" | "problem" | "status" | { readonly mediaType: string; readonly schema: Schema };

type NamedBody = { readonly mediaType: string; readonly name: string; readonly schema: Schema };

const code: Schema = { type: "string", description: "For programs." };
const message: Schema = { type: "string", description: "For people: what was wrong, and where." };
const details: Schema = {
  type: "array",
  description: "Messages of google.rpc, and others: each says its type in `@type`.",
  items: { type: "object", properties: { "@type": { type: "string" } }, required: ["@type"] },
};

const bodies: Readonly<Record<"plain" | "problem" | "status", NamedBody>> = {
  plain: {
    mediaType: "application/json",
    name: "Error",
    schema: { type: "object", properties: { code, message }, required: ["code", "message"] },
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
      properties: {
        code: { type: "integer", format: "int32", description: "Of google.rpc.Code." },
        message,
        details,
      },
      required: ["code", "message", "details"],
    },
  },
};

export type ErrorResponses = {
  /** Adds the answers of an operation's errors to those of its successes. */
  add(responses: Map<string, Response>, shapes: readonly DescMessage[]): void;
  /** Any of an operation's errors as JSON, where it stands inside of something. */
  bodyOf(shapes: readonly DescMessage[]): Schema;
};

/** The errors of operations; `shapes` are messages with the `error` option: one such detail is the whole answer. */
export function createErrorResponses(body: ErrorBody, schemas: Schemas, comments: Comments): ErrorResponses {
  const { mediaType, name, schema } = typeof body === "string" ? bodies[body] : { name: "Error", ...body };

  const responseOf = (shape: DescMessage, reasons: readonly string[] = []): Response => {
    const headers: Record<string, ResponseHeader> = {};
    for (const field of shape.fields) {
      const { header } = fieldRule(field);
      if (header !== "") {
        headers[header] = { ...describe(comments(field)), schema: schemas.value(field, responseForm) };
      }
    }
    return {
      description:
        reasons.length > 0 ? reasons.map((reason) => `\`${reason}\``).join(", ") : (comments(shape) ?? shape.name),
      ...(Object.keys(headers).length === 0 ? {} : { headers }),
      ...(hasBody(shape) ? { content: { "application/json": { schema: schemas.message(shape, responseForm) } } } : {}),
    };
  };

  /** Those of shapes that have a body, and `other`. */
  const anyOf = (shapes: readonly DescMessage[], other: readonly Schema[]): Schema => {
    const all = [...shapes.map((shape) => schemas.message(shape, responseForm)), ...other];
    return all.length === 1 ? (all[0] as Schema) : { anyOf: all };
  };

  return {
    bodyOf(shapes) {
      // What is no JSON can't stand there: such an error is a plain one.
      const other = /[/+]json$/.test(mediaType) ? schemas.named(name, schema) : bodies.plain.schema;
      return anyOf(shapes.filter(hasBody), [other]);
    },
    add(responses, shapes) {
      const alternatives: DescMessage[] = [];
      for (const shape of shapes) {
        const rule = errorRule(shape);
        if (rule === undefined) {
          throw new Error(`${shape.typeName} has no (transcoding.v1.error) option`);
        }
        const byStatus = rule.status === 0 ? reasonsByStatus(shape, rule.reason) : [[rule.status, []] as const];
        for (const [status, reasons] of byStatus) {
          const response = responseOf(shape, reasons);
          const other = responses.get(String(status));
          responses.set(String(status), other === undefined ? response : either(other, response));
        }
        if (hasBody(shape)) {
          alternatives.push(shape);
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

/** Two answers of one status: whichever headers and bodies either has. */
function either(one: Response, other: Response): Response {
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

function hasBody(shape: DescMessage): boolean {
  return shape.fields.some((field) => fieldRule(field).header === "");
}

function reasonsByStatus(shape: DescMessage, name: string): [status: number, reasons: string[]][] {
  const field = shape.fields.find((each) => each.name === name);
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
