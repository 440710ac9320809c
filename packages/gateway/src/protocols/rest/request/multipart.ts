import { decodeLatin1, decodeUtf8, encodeLatin1, indexOfBytes } from "#platform/bytes";
import { RequestError } from "../../../http/request-error.ts";
import { mediaTypeOf } from "../../../http/media-type.ts";

export type Part = {
  readonly name: string;
  /** Undefined if the part is not a file. Chosen by the client: it must not be used as a path. */
  readonly filename: string | undefined;
  readonly contentType: string | undefined;
  readonly data: Uint8Array;
};

const blankLine = encodeLatin1("\r\n\r\n");
const MAX_PARTS = 1000;
const MAX_HEADER_BYTES = 16 * 1024;

/**
 * Parses multipart/form-data (RFC 7578). Every part must have a name, and the closing delimiter is required. The preamble
 * and epilogue are discarded (RFC 2046, section 5.1.1). Throws a RequestError that names the invalid part.
 */
export function parseMultipart(bytes: Uint8Array, contentType: string): Part[] {
  const boundary = boundaryOf(contentType);
  const delimiter = encodeLatin1(`\r\n--${boundary}`);
  // The first delimiter may be at the very start, without a line break before it.
  const isFirst = startsWith(bytes, `--${boundary}`, 0);
  const begin = isFirst ? -2 : indexOfBytes(bytes, delimiter);
  if (begin === -1) {
    throw malformed("the boundary was not found");
  }
  const parts: Part[] = [];
  let at = begin + delimiter.length;
  while (!startsWith(bytes, "--", at)) {
    const label = `part ${parts.length + 1}`;
    if (parts.length === MAX_PARTS) {
      throw malformed(`more than ${MAX_PARTS} parts`);
    }
    at = skipPadding(bytes, at);
    if (!startsWith(bytes, "\r\n", at)) {
      throw malformed(`${label}: a line break was expected after the boundary`);
    }
    // Searched from the line break before the first header, so that a part without headers is found too.
    const headersEnd = indexOfBytes(bytes.subarray(0, at + MAX_HEADER_BYTES), blankLine, at);
    if (headersEnd === -1) {
      throw malformed(`${label}: the headers do not end, or exceed ${MAX_HEADER_BYTES} bytes`);
    }
    const end = indexOfBytes(bytes, delimiter, headersEnd + 4);
    if (end === -1) {
      throw malformed(`${label}: the closing boundary is missing`);
    }
    parts.push({
      ...parsePartHeaders(bytes.subarray(at + 2, headersEnd), label),
      data: bytes.subarray(headersEnd + 4, end),
    });
    at = end + delimiter.length;
  }
  at = skipPadding(bytes, at + 2);
  if (at < bytes.length && !startsWith(bytes, "\r\n", at)) {
    throw malformed("a line break was expected after the closing boundary");
  }
  return parts;
}

function startsWith(bytes: Uint8Array, text: string, at: number): boolean {
  return decodeLatin1(bytes.subarray(at, at + text.length)) === text;
}

/** Skips the transport padding: blanks after a delimiter (RFC 2046, section 5.1.1). */
function skipPadding(bytes: Uint8Array, at: number): number {
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
    throw malformed("the Content-Type has no valid boundary");
  }
  return boundary;
}

function parsePartHeaders(bytes: Uint8Array, label: string): Omit<Part, "data"> {
  const text = decodeUtf8(bytes);
  if (text === undefined) {
    throw malformed(`${label}: the headers are not valid UTF-8`);
  }
  const headers = new Map<string, string>();
  for (const line of text === "" ? [] : text.split("\r\n")) {
    const [, name, value] = /^([\w!#$%&'*+.^`|~-]+):[\t ]*([\t -~\u0080-\uffff]*)$/.exec(line) ?? [];
    if (name === undefined || value === undefined || headers.has(name.toLowerCase())) {
      throw malformed(`${label}: a header is malformed or repeated`);
    }
    headers.set(name.toLowerCase(), value.trim());
  }
  const encoding = headers.get("content-transfer-encoding");
  if (encoding !== undefined && !/^(?:7bit|8bit|binary)$/i.test(encoding)) {
    throw malformed(`${label}: the Content-Transfer-Encoding is not supported`);
  }
  const disposition = headers.get("content-disposition") ?? "";
  const parameters = mediaTypeOf(disposition) === "form-data" ? parametersOf(disposition) : undefined;
  const name = parameters?.get("name");
  if (parameters === undefined || name === undefined) {
    throw malformed(`${label}: the Content-Disposition must be form-data with a name`);
  }
  return { name: unescape(name), filename: parameters.get("filename"), contentType: headers.get("content-type") };
}

/** The parameters of a header, `; name=token` or `; name="text"`, by lower-case name; undefined if they are malformed. */
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

/** Reverses the escaping of quotes and line breaks by browsers (WHATWG HTML, section 4.10.21.8). */
function unescape(name: string): string {
  return name.replaceAll("%22", '"').replaceAll("%0D", "\r").replaceAll("%0A", "\n");
}

function malformed(what: string): RequestError {
  return new RequestError(400, "invalid_multipart", `the body is not valid multipart/form-data: ${what}`);
}
