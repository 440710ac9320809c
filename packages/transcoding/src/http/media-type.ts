/** The media type of a Content-Type header (RFC 9110, section 8.3.1), in lower case and without parameters. */
export function mediaTypeOf(contentType: string): string {
  const semicolon = contentType.indexOf(";");
  return (semicolon === -1 ? contentType : contentType.slice(0, semicolon)).trim().toLowerCase();
}

/** Whether a Content-Type header has no charset parameter, or one that UTF-8 satisfies. */
export function isUtf8Charset(contentType: string): boolean {
  const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(contentType)?.[1]?.toLowerCase();
  return charset === undefined || charset === "utf-8" || charset === "utf8" || charset === "us-ascii";
}

/** Whether an Accept header (RFC 9110, section 12.5.1) accepts a media type; the most specific media range decides. */
export function accepts(accept: string | undefined, mediaType: string): boolean {
  if (accept === undefined || accept === "*/*" || accept === "" || accept === mediaType) {
    return true;
  }
  const [type] = mediaType.split("/");
  let best = { specificity: -1, weight: 0 };
  for (const range of accept.split(",")) {
    const [name = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    const specificity = name === mediaType ? 2 : name === `${type}/*` ? 1 : name === "*/*" ? 0 : -1;
    const q = parameters.find((parameter) => parameter.startsWith("q="));
    const weight = q === undefined ? 1 : Number(q.slice(2));
    if (specificity > best.specificity) {
      best = { specificity, weight };
    }
  }
  return best.specificity >= 0 && best.weight > 0;
}
