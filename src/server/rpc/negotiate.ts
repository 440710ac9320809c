import { ConnectError, Code } from "@connectrpc/connect";
import type { Compression } from "@connectrpc/connect/protocol";
import { compressions } from "./compression.ts";

/** A shorter message is sent as it is: compressing it would cost more time than it saves. */
export const compressMinBytes = 1024;

const byName: ReadonlyMap<string, Compression> = new Map(
  compressions.map((compression) => [compression.name, compression]),
);
const names = compressions.map(({ name }) => name).join(",");

/** The compression of a request; undefined: none. Throws UNIMPLEMENTED, as all three protocols have it, for an unknown one. */
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

/** The first of the client's that is supported; without a list, that of its request. */
export function responseCompression(
  accepted: string | string[] | undefined,
  ofRequest: Compression | undefined,
): Compression | undefined {
  if (accepted === undefined || accepted === "") {
    return ofRequest;
  }
  for (const name of String(accepted).split(",")) {
    const compression = byName.get(name.trim());
    if (compression !== undefined) {
      return compression;
    }
  }
  return undefined;
}
