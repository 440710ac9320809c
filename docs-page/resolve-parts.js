/**
 * A plugin of Swagger UI that resolves an operation, or another part of the document, without reading the others: to read all of them
 * each time takes seconds on a slow machine.
 */
export function resolveParts({ fn: { resolveSubtree } }) {
  return {
    fn: { resolveSubtree: (document, path, options) => resolveSubtree(reduceTo(path, document), path, options) },
  };
}

/** The document with the path item or component that is at a path or contains it, and those that it refers to, directly or by others. */
function reduceTo(path, document) {
  if (path.length === 0) {
    return document;
  }
  const reduced = { ...document, paths: {}, components: {} };
  const parts = new Set([formatPart(path)]);
  // Those that are added are visited too.
  for (const part of parts) {
    const keys = JSON.parse(part);
    const value = keys.reduce((parent, key) => parent?.[key], document);
    if (value !== undefined) {
      set(reduced, keys, value);
      for (const [, pointer] of JSON.stringify(value).matchAll(/"\$ref":"#(\/[^"]*)"/g)) {
        parts.add(formatPart(parsePointer(pointer)));
      }
    }
  }
  return reduced;
}

/** `["paths", path]`, or `["components", kind, name]`. */
function formatPart(keys) {
  return JSON.stringify(keys.slice(0, keys[0] === "components" ? 3 : 2));
}

/** RFC 6901, section 6. */
function parsePointer(pointer) {
  const keys = decodeURIComponent(pointer).split("/").slice(1);
  return keys.map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function set(target, [key, ...rest], value) {
  target[key] = rest.length === 0 ? value : { ...target[key] };
  if (rest.length > 0) {
    set(target[key], rest, value);
  }
}
