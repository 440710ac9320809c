/** Forms of tools have one part. */
const maxParts = 16;

const maxHeaderBytes = 8 * 1024;

/**
 * Finds the file in a field of a multipart form (RFC 7578), in time that is linear in its length and without a copy. Undefined: there is
 * none, or the form is malformed.
 */
export function findFile(form: Buffer, contentType: string, field: string): Buffer | undefined {
  const [, quoted, token] =
    /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"\\]{1,70})"|([^\s";,]{1,70}))/i.exec(contentType) ?? [];
  const boundary = quoted ?? token;
  if (boundary === undefined) {
    return undefined;
  }
  const delimiter = Buffer.from(`\r\n--${boundary}`);
  // The first one has no line before it, unless there is a preamble.
  const isFirst = form.subarray(0, delimiter.length - 2).equals(delimiter.subarray(2));
  let at = isFirst ? delimiter.length - 2 : endOf(form, delimiter);
  for (let part = 0; part < maxParts && at !== undefined; part++) {
    const contentAt = endOf(form, "\r\n\r\n", at, at + maxHeaderBytes);
    const nextAt = contentAt && endOf(form, delimiter, contentAt - 2);
    if (contentAt === undefined || nextAt === undefined) {
      return undefined;
    }
    if (isFileOf(field, form.subarray(at, contentAt).toString())) {
      return form.subarray(contentAt, Math.max(contentAt, nextAt - delimiter.length));
    }
    at = nextAt;
  }
  return undefined;
}

/** The position after the next occurrence, which must begin before `until`. */
function endOf(form: Buffer, text: string | Buffer, from = 0, until = form.length): number | undefined {
  const at = form.subarray(0, until).indexOf(text, from);
  return at === -1 ? undefined : at + text.length;
}

function isFileOf(field: string, headers: string): boolean {
  const [, disposition = ""] = /^content-disposition:[ \t]*form-data[ \t]*;(.*)$/im.exec(headers) ?? [];
  const [, quoted, token] = /(?:^|;)\s*name=(?:"([^"]*)"|([^\s";]*))/i.exec(disposition) ?? [];
  return (quoted ?? token) === field && /(?:^|;)\s*filename\*?=/i.test(disposition);
}
