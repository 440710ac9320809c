// A frame is one message to the child: a marker, the lengths of message and payload (32 bits each, big-endian), the message
// as JSON, and the payload as raw bytes.

const marker = 0x666c6f77;
const prefixBytes = 12;

/** Returns the pieces of a frame in order. The payload is not copied. */
export function formatFrame(message: object, payload: Uint8Array): Uint8Array[] {
  const header = Buffer.from(JSON.stringify(message));
  const prefix = Buffer.alloc(prefixBytes);
  prefix.writeUInt32BE(marker, 0);
  prefix.writeUInt32BE(header.length, 4);
  prefix.writeUInt32BE(payload.length, 8);
  return [prefix, header, payload];
}

/**
 * Returns a function that takes the chunks of a byte stream and calls `onFrame` for each complete frame.
 *
 * It throws if a frame does not begin with the marker: something else has read from the channel, and the lengths can't be
 * trusted any more.
 */
export function createFrameReader(onFrame: (message: unknown, payload: Buffer) => void): (chunk: Buffer) => void {
  let chunks: Buffer[] = [];
  let bytes = 0;
  let lengths: { readonly header: number; readonly payload: number } | undefined;

  function take(count: number): Buffer {
    const all = Buffer.concat(chunks, bytes);
    chunks = [all.subarray(count)];
    bytes -= count;
    return all.subarray(0, count);
  }

  return (chunk) => {
    chunks.push(chunk);
    bytes += chunk.length;
    for (;;) {
      if (lengths === undefined) {
        if (bytes < prefixBytes) {
          return;
        }
        const prefix = take(prefixBytes);
        if (prefix.readUInt32BE(0) !== marker) {
          throw new Error("bytes are missing in the runtime's own channel");
        }
        lengths = { header: prefix.readUInt32BE(4), payload: prefix.readUInt32BE(8) };
      }
      const { header, payload } = lengths;
      if (bytes < header + payload) {
        return;
      }
      const body = take(header + payload);
      lengths = undefined;
      onFrame(JSON.parse(body.toString("utf8", 0, header)), body.subarray(header));
    }
  };
}
