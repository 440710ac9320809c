import { promisify } from "node:util";
import { setImmediate } from "node:timers/promises";
import { constants, zstdCompress, zstdDecompress } from "node:zlib";
import type { FlowNode } from "../flows/configuration.ts";

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

// A millisecond or two of JSON.stringify: other requests get their turn between slices.
const SLICE_NODES = 1000;

/** Flows as they are stored: zstd over JSON, with a checksum. */
export async function packFlows(flows: readonly FlowNode[]): Promise<Buffer> {
  const parts = [Buffer.from("[")];
  for (let start = 0; start < flows.length; start += SLICE_NODES) {
    const json = JSON.stringify(flows.slice(start, start + SLICE_NODES)).slice(1, -1);
    parts.push(Buffer.from(start === 0 ? json : `,${json}`));
    await setImmediate();
  }
  parts.push(Buffer.from("]"));
  return compress(Buffer.concat(parts), { params: { [constants.ZSTD_c_checksumFlag]: 1 } });
}

export async function unpackFlows(packed: Uint8Array): Promise<FlowNode[]> {
  const json = await decompress(packed);
  return JSON.parse(json.toString("utf8")) as FlowNode[];
}
