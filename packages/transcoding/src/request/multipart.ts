import { isUtf8 } from "node:buffer";
import { RequestError } from "../http/request-error.ts";
import { mediaTypeOf } from "../http/media-type.ts";

/** One part of a multipart/form-data body. */
export type Part = {
  readonly name: string;
  /** undefined: not sent as a file. It is what a client chose, and no path to trust. */
  readonly filename: string | undefined;
  readonly contentType: string | undefined;
  readonly data: Uint8Array;
};

const MAX_PARTS = 1000;
const MAX_HEADER_BYTES = 16 * 1024;

/**
 * Parses multipart/form-data (RFC 7578): every part says its name, and the closing delimiter is there. Text before the
 * first delimiter and behind the last is discarded (RFC 2046, section 5.1.1). Throws a RequestError that tells which part is wrong.
 */
export function parseMultipart(body: Uint8Array, contentType: string): Part[] {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const boundary = boundaryOf(contentType);
  const delimiter = Buffer.from(`\r\n--${boundary}`, "latin1");
  // The first delimiter may have no line before it.
  const isFirst = bytes.subarray(0, delimiter.length - 2).equals(delimiter.subarray(2));
  const begin = isFirst ? -2 : bytes.indexOf(delimiter);
  if (begin === -1) {
    throw malformed("its boundary is not in it");
  }
  const parts: Part[] = [];
  let at = begin + delimiter.length;
  while (!bytes.subarray(at, at + 2).equals(Buffer.from("--"))) {
    const what = `part ${parts.length + 1}`;
    if (parts.length === MAX_PARTS) {
      throw malformed(`more than ${MAX_PARTS} parts`);
    }
    at = skipPadding(bytes, at);
    if (bytes.subarray(at, at + 2).toString("latin1") !== "\r\n") {
      throw malformed(`${what}: a line break was expected behind its boundary`);
    }
    // From the line break before the first header, so that a part without any has an empty line too.
    const headEnd = bytes.subarray(0, at + MAX_HEADER_BYTES).indexOf("\r\n\r\n", at);
    if (headEnd === -1) {
      throw malformed(`${what}: its headers do not end, or are longer than ${MAX_HEADER_BYTES} bytes`);
    }
    const end = bytes.indexOf(delimiter, headEnd + 4);
    if (end === -1) {
      throw malformed(`${what}: it does not end with the boundary`);
    }
    parts.push({ ...parseHead(bytes.subarray(at + 2, headEnd), what), data: bytes.subarray(headEnd + 4, end) });
    at = end + delimiter.length;
  }
  at = skipPadding(bytes, at + 2);
  if (!/^(?:\r\n|$)/.test(bytes.subarray(at, at + 2).toString("latin1"))) {
    throw malformed("a line break was expected behind its end");
  }
  return parts;
}

/** Blanks behind a delimiter are padding of the transport. */
function skipPadding(bytes: Buffer, at: number): number {
  let end = at;
  while (bytes[end] === 0x20 || bytes[end] === 0x09) {
    end++;
  }
  return end;
}

function boundaryOf(contentType: string): string {
  const boundary = parametersOf(contentType)?.get("boundary");
  // RFC 2046, section 5.1.1
  if (boundary === undefined || !/^[\w'()+,./:=? -]{0,69}[\w'()+,./:=?-]$/.test(boundary)) {
    throw malformed("its Content-Type has no valid boundary");
  }
  return boundary;
}

function parseHead(bytes: Buffer, what: string): Omit<Part, "data"> {
  if (!isUtf8(bytes)) {
    throw malformed(`${what}: its headers are not valid UTF-8`);
  }
  const headers = new Map<string, string>();
  for (const line of bytes.length === 0 ? [] : bytes.toString("utf8").split("\r\n")) {
    const [, name, value] = /^([\w!#$%&'*+.^`|~-]+):[\t ]*([\t -~\u0080-\uffff]*)$/.exec(line) ?? [];
    if (name === undefined || value === undefined || headers.has(name.toLowerCase())) {
      throw malformed(`${what}: a header that is malformed, or stands twice`);
    }
    headers.set(name.toLowerCase(), value.trim());
  }
  const encoding = headers.get("content-transfer-encoding");
  if (encoding !== undefined && !/^(?:7bit|8bit|binary)$/i.test(encoding)) {
    throw malformed(`${what}: a Content-Transfer-Encoding is not understood`);
  }
  const disposition = headers.get("content-disposition") ?? "";
  const parameters = mediaTypeOf(disposition) === "form-data" ? parametersOf(disposition) : undefined;
  const name = parameters?.get("name");
  if (parameters === undefined || name === undefined) {
    throw malformed(`${what}: its Content-Disposition must be form-data with a name`);
  }
  return { name: unescape(name), filename: parameters.get("filename"), contentType: headers.get("content-type") };
}

/** `; name=token` and `; name="text"`, by lower-case name; undefined where something else stands there. */
function parametersOf(header: string): Map<string, string> | undefined {
  const found = new Map<string, string>();
  const parameter = /[\t ]*;[\t ]*(?:([\w!#$%&'*+.^`|~-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+)))?/y;
  parameter.lastIndex = /^[^;]*/.exec(header)?.[0].length ?? 0;
  while (parameter.lastIndex < header.length) {
    const match = parameter.exec(header);
    if (match === null) {
      return undefined;
    }
    const [, name, quoted, token] = match;
    if (name !== undefined) {
      if (found.has(name.toLowerCase())) {
        return undefined;
      }
      found.set(name.toLowerCase(), quoted?.replaceAll(/\\(["\\])/g, "$1") ?? token ?? "");
    }
  }
  return found;
}

/** What browsers do to a name that has a quote or a line break (WHATWG HTML, section 4.10.21.8). */
function unescape(name: string): string {
  return name.replaceAll("%22", '"').replaceAll("%0D", "\r").replaceAll("%0A", "\n");
}

function malformed(what: string): RequestError {
  return new RequestError(400, "invalid_multipart", `the body is not valid multipart/form-data: ${what}`);
}
