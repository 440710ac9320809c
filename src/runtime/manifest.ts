import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { isScarcity } from "../base/error-code.ts";
import { type Fields, isFields } from "../base/fields.ts";

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
  } catch (error) {
    if (isScarcity(error)) {
      throw error;
    }
    return {};
  }
}
