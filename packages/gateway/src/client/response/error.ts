import {
  create,
  createRegistry,
  type DescMessage,
  type JsonValue,
  type Message,
  type Registry,
  toBinary,
} from "@bufbuild/protobuf";
import { type Any, AnySchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema, file_google_rpc_error_details } from "../../../gen/google/rpc/error_details_pb.ts";
import { codeOfStatus, nameOfCode } from "../../errors/codes.ts";
import { createJsonReaders } from "../../json/read.ts";
import { isObject } from "../../json/object.ts";
import { RequestError } from "../../http/request-error.ts";
import { errorRule, fieldRule } from "../../schema/rules.ts";
import { createHeaderFieldsReader } from "./headers.ts";

export type ErrorReader = {
  /** Converts an error response; `document` is undefined if its body is not JSON. */
  readonly fromResponse: (response: Response, text: string, document: unknown) => ConnectError;
  readonly fromStream: (document: unknown, response: Response) => ConnectError;
};

/**
 * Creates the reader of the errors of a service: google.rpc.Status, as grpc-gateway and others send it; `{"error": {…}}`, as Google
 * does; the formats of this package; the messages with its `error` option; and text.
 */
export function createErrorReader(registry: Registry, requestError: string): ErrorReader {
  const types = createRegistry(registry, file_google_rpc_error_details);
  const readErrorMessage = createErrorMessageReader(registry, requestError);
  const readAny = createJsonReaders({ ignoreUnknown: true, registry: types, isResponse: true }).message(AnySchema);

  const addDetail = (error: ConnectError, json: unknown): void => {
    try {
      const { typeUrl, value } = readAny(json, []) as Any;
      error.details.push({ type: typeUrl.slice(typeUrl.lastIndexOf("/") + 1), value, debug: json as JsonValue });
    } catch {
      // A detail of an unknown type, which has no binary form.
    }
  };

  const fromBody = (body: Body, status: number | undefined, fallback: string, header: Headers): ConnectError => {
    const code = codeOf(body) ?? codeOfHttp(status);
    const error = new ConnectError(textOf(body) ?? fallback, code, header);
    for (const detail of Array.isArray(body["details"]) ? body["details"] : []) {
      addDetail(error, detail);
    }
    const reason = reasonOf(body);
    // In the formats of this package, a reason comes from this detail, or has none.
    if (
      reason !== undefined &&
      !error.details.some((detail) => "type" in detail && detail.type === ErrorInfoSchema.typeName)
    ) {
      const value = toBinary(ErrorInfoSchema, {
        $typeName: ErrorInfoSchema.typeName,
        reason,
        domain: "",
        metadata: {},
      });
      error.details.push({ type: ErrorInfoSchema.typeName, value, debug: { reason } });
    }
    return error;
  };

  const fromDocument = (document: unknown, status: number | undefined, header: Headers): ConnectError | undefined => {
    const declared = readErrorMessage(document, status, header);
    if (declared !== undefined) {
      const { desc, message, text } = declared;
      const error = new ConnectError(text ?? httpText(status), codeOfHttp(status), header);
      error.details.push({ type: desc.typeName, value: toBinary(desc, message) });
      return error;
    }
    if (!isObject(document)) {
      return undefined;
    }
    const { error: inner } = document;
    return fromBody(isObject(inner) ? inner : document, status, httpText(status), header);
  };

  return {
    fromResponse(response, text, document) {
      const { status, headers } = response;
      return (
        fromDocument(document, status, headers) ??
        new ConnectError(messageOf(response, text), codeOfHttp(status), headers)
      );
    },
    fromStream: (document, { headers }) =>
      fromDocument(document, undefined, headers) ?? new ConnectError(httpText(undefined), Code.Unknown, headers),
  };
}

type Body = Readonly<Record<string, unknown>>;

/** The names of codes: this package's, and those of google.rpc.Code. */
const codeByName = new Map(
  Object.values(Code)
    .filter((code) => typeof code === "number")
    .flatMap((code): [string, Code][] => [
      [nameOfCode(code), code],
      [nameOfCode(code).toUpperCase(), code],
    ]),
).set("CANCELLED", Code.Canceled);

const codeByNumber = new Map([...codeByName.values()].map((code): [number, Code] => [code, code]));

/** The code that the body of an error contains; undefined if it has none. */
function codeOf({ code, status }: Body): Code | undefined {
  // Google sends the HTTP status as `code`, and the name of the RPC code as `status`.
  const named = codeByName.get(String(status)) ?? codeByName.get(String(code));
  if (named !== undefined || typeof code !== "number") {
    return named;
  }
  return codeByNumber.get(code);
}

/** The machine-readable reason besides the code; undefined if it has none. */
function reasonOf({ reason, code }: Body): string | undefined {
  const [found] = [reason, codeByName.get(String(code)) === undefined ? code : undefined].filter(
    (each) => typeof each === "string",
  );
  return found;
}

/** The message of google.rpc.Status and most others, of RFC 9457, and of RFC 6749. */
function textOf({ message, detail, title, error, error_description: description }: Body): string | undefined {
  return [message, detail, description, title, error].find((each) => typeof each === "string" && each !== "") as
    | string
    | undefined;
}

/** The code for an HTTP status; Unknown within a stream, where there is none. */
function codeOfHttp(status: number | undefined): Code {
  // What a proxy sends if it can't reach the server.
  return status === 502 ? Code.Unavailable : status === undefined || status < 400 ? Code.Unknown : codeOfStatus(status);
}

/** The maximum length of a message that is the text of a response. */
const MAX_TEXT = 500;

function messageOf({ status, statusText, headers }: Response, text: string): string {
  const isText = headers.get("content-type")?.startsWith("text/plain") === true && text.trim() !== "";
  return isText ? text.trim().slice(0, MAX_TEXT).toWellFormed() : `${httpText(status)} ${statusText}`.trim();
}

function httpText(status: number | undefined): string {
  return status === undefined ? "the stream failed" : `HTTP ${status}`;
}

type ErrorMessage = { readonly desc: DescMessage; readonly message: Message; readonly text: string | undefined };

/**
 * Reads an error body as the first message that it fits; undefined if there is none. `document` is undefined for an empty body,
 * and `status` undefined within a stream.
 */
type ErrorMessageReader = (document: unknown, status: number | undefined, header: Headers) => ErrorMessage | undefined;

/** Compiles the messages with the `error` option, first the one with the full name `preferred`. */
function createErrorMessageReader(registry: Registry, preferred: string): ErrorMessageReader {
  const candidates = [...registry]
    .filter((type) => type.kind === "message")
    .toSorted((a, b) => Number(b.typeName === preferred) - Number(a.typeName === preferred))
    .flatMap((desc) => compileCandidate(desc, registry) ?? []);
  return (document, status, header) => {
    for (const read of candidates) {
      const message = read(document, status, header);
      if (message !== undefined) {
        return message;
      }
    }
    return undefined;
  };
}

function compileCandidate(desc: DescMessage, registry: Registry): ErrorMessageReader | undefined {
  const rule = errorRule(desc);
  if (rule === undefined) {
    return undefined;
  }
  const setHeaderFields = createHeaderFieldsReader(desc);
  // Unknown keys are rejected, since they show that the body is another message.
  const read = createJsonReaders({ ignoreUnknown: false, registry }).message(desc);
  const hasBody = desc.fields.some((field) => fieldRule(field).header === "");
  const names = desc.fields.filter(({ name }) => name === rule.reason || name === rule.message);
  const header = desc.fields.map((field) => fieldRule(field).header).find((name) => name !== "");
  const textField = desc.fields.find(({ name }) => name === rule.message);
  const complete = (message: Message, headers: Headers): ErrorMessage => {
    setHeaderFields(message, headers);
    const text = textField && (message as Message & Record<string, unknown>)[textField.localName];
    return { desc, message, text: typeof text === "string" && text !== "" ? text : undefined };
  };
  return (document, status, headers) => {
    if (rule.status !== 0 && rule.status !== status) {
      return undefined;
    }
    if (!hasBody) {
      const isSent = document === undefined && header !== undefined && headers.has(header);
      return isSent ? complete(create(desc), headers) : undefined;
    }
    if (!isObject(document) || !names.every(({ jsonName }) => Object.hasOwn(document, jsonName))) {
      return undefined;
    }
    try {
      return complete(read(document, []) as Message, headers);
    } catch (error) {
      if (error instanceof RequestError) {
        return undefined;
      }
      throw error;
    }
  };
}
