import { ConnectError, Code } from "@connectrpc/connect";
import { type Compression, compressions } from "./compression.ts";

/** Shorter messages are not compressed, which would take more time than it saves. */
export const compressMinBytes = 1024;

const byName: ReadonlyMap<string, Compression> = new Map(
  compressions.map((compression) => [compression.name, compression]),
);
const names = compressions.map(({ name }) => name).join(",");

/** The compression of a request; undefined: none. Throws UNIMPLEMENTED for an unknown one, as all three protocols specify. */
export function requestCompression(
  encoding: string | string[] | undefined | null,
  acceptHeader: string,
): Compression | undefined {
  if (encoding === undefined || encoding === null || encoding === "" || encoding === "identity") {
    return undefined;
  }
  const compression = byName.get(String(encoding));
  if (compression === undefined) {
    throw new ConnectError(`unknown compression: the supported encodings are ${names}`, Code.Unimplemented, {
      [acceptHeader]: names,
    });
  }
  return compression;
}

/** The first supported compression in the client's list; without a list, that of its request. */
export function responseCompression(
  accepted: string | string[] | undefined,
  fallback: Compression | undefined,
): Compression | undefined {
  if (accepted === undefined || accepted === "") {
    return fallback;
  }
  for (const name of String(accepted).split(",")) {
    const compression = byName.get(name.trim());
    if (compression !== undefined) {
      return compression;
    }
  }
  return undefined;
}
