/**
 * A plugin of Swagger UI that resolves an operation, or another part of the document, without reading the others: to read all of them
 * each time takes seconds on a slow machine.
 */
export function resolveParts({ fn: { resolveSubtree } }) {
  return {
    fn: { resolveSubtree: (document, path, options) => resolveSubtree(reduceTo(path, document), path, options) },
  };
}

/** The document with one part, and what this refers to, directly or by others. */
function reduceTo(path, document) {
  const reduced = { ...document, paths: {}, components: {} };
  const pointers = new Set([formatPointer(path)]);
  // Those that are added are visited too.
  for (const pointer of pointers) {
    const keys = parsePointer(pointer);
    const part = keys.reduce((parent, key) => parent?.[key], document);
    if (part !== undefined) {
      set(reduced, keys, part);
      for (const [, reference] of JSON.stringify(part).matchAll(/"#(\/[^"]*)"/g)) {
        pointers.add(decodeURIComponent(reference));
      }
    }
  }
  return reduced;
}

/** RFC 6901. */
function formatPointer(keys) {
  return keys.map((key) => `/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

function parsePointer(pointer) {
  return pointer
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function set(target, [key, ...rest], value) {
  target[key] = rest.length === 0 ? value : { ...target[key] };
  if (rest.length > 0) {
    set(target[key], rest, value);
  }
}
