/** One proxy's description of its client's certificate: keys in lower case, and their unquoted values. */
type ForwardedCertificate = readonly (readonly [key: string, value: string])[];

/**
 * Parses a value of X-Forwarded-Client-Cert, as documented by Envoy:
 *
 *     header  = element *( OWS "," OWS element )
 *     element = pair *( ";" pair )
 *     pair    = key "=" ( plain / DQUOTE *( character / "\" character ) DQUOTE )
 *     plain   = *( any but "," ";" "=" DQUOTE "\" or space )
 *
 * Each proxy appends its element. undefined: invalid.
 */
export function parseForwardedCertificates(header: string): readonly ForwardedCertificate[] | undefined {
  const pair = /[ \t]*([a-z]+)=(?:"((?:[^"\\]|\\.)*)"|([^",;=\\\s]*))[ \t]*([,;]|$)/giy;
  const elements: ForwardedCertificate[] = [];
  let element: [string, string][] = [];
  for (;;) {
    const match = pair.exec(header);
    if (match === null) {
      return undefined;
    }
    const [, key = "", quoted, plain = "", delimiter] = match;
    element.push([key.toLowerCase(), quoted?.replaceAll(/\\(.)/g, "$1") ?? plain]);
    if (delimiter === ";") {
      continue;
    }
    elements.push(element);
    element = [];
    if (delimiter === "") {
      return elements;
    }
  }
}
