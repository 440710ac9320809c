/**
 * The value of a cookie (RFC 6265, section 4.2.1); undefined: it is missing, or has several values. Another program on this host has set one
 * of them then, and could make the browser act in a session of its own.
 */
export function readCookie(header: string | undefined, name: string): string | undefined {
  const values = readCookies(header, name);
  return values.length === 1 ? values[0] : undefined;
}

/** The different values of a cookie: a browser can have several, for different paths and domains. */
export function readCookies(header: string | undefined, name: string): string[] {
  const values = (header?.split(";") ?? []).flatMap((pair) => {
    const equals = pair.indexOf("=");
    // Only these characters: a name after other white space would be one that browsers do not protect by its prefix.
    return equals !== -1 && pair.slice(0, equals).replaceAll(/^[ \t]+|[ \t]+$/g, "") === name
      ? [pair.slice(equals + 1).trim()]
      : [];
  });
  return [...new Set(values)];
}
