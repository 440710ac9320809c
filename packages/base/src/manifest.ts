import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { hasCode, isScarcity } from "./error-code.ts";
import { type Fields, isFields } from "./fields.ts";

const maxManifestBytes = 1024 * 1024;

/** Reads a JSON object from a file that flows may have written: any size, any content, or a link. Empty if it is none. */
export function readManifest(path: string, maxBytes = maxManifestBytes): Fields {
  try {
    return readCertainManifest(path, maxBytes);
  } catch {
    return {};
  }
}

/** As `readManifest`, for what is remembered. Throws if the system lacks resources to read it now. */
export function readCertainManifest(path: string, maxBytes = maxManifestBytes): Fields {
  try {
    return readFields(path, maxBytes);
  } catch (error) {
    if (isScarcity(error)) {
      throw error;
    }
    return {};
  }
}

/** As `readManifest`, for a file that only the service writes. Throws if there is one that can't be read now. */
export function readOwnManifest(path: string): Fields {
  try {
    return readFields(path, maxManifestBytes);
  } catch (error) {
    if (error instanceof SyntaxError || hasCode(error, "ENOENT", "ENOTDIR")) {
      return {};
    }
    throw error;
  }
}

function readFields(path: string, maxBytes: number): Fields {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile() || stat.size > maxBytes) {
      return {};
    }
    const value: unknown = JSON.parse(readFileSync(fd, "utf8"));
    return isFields(value) ? value : {};
  } finally {
    closeSync(fd);
  }
}

/** Keeps the last value of a function for calls that throw, such as one that reads a file while there are no file descriptors. */
export function keepLast<T>(read: () => T): () => T {
  let last: { readonly value: T } | undefined;
  return () => {
    try {
      last = { value: read() };
    } catch (error) {
      if (last === undefined) {
        throw error;
      }
    }
    return last.value;
  };
}
