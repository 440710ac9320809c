import { framesIn, type as frameType } from "../test/server/http/frames.ts";
import { decodeHex, type SystemCall } from "./strace.ts";

const database = /<[^>]*flowgate\.db(?:-wal)?>/;

/**
 * Finds the responses in a trace (`-xx`, so that all bytes are in hexadecimal) that begin while the database has writes for which
 * no later fsync has returned.
 */
export function findEarlyResponses(calls: readonly SystemCall[]): { responses: number; violations: string[] } {
  /** By file: the number of its writes, and of those that are on the disk. */
  const written = new Map<string, number>();
  const synced = new Map<string, number>();
  /** What an fsync that has not returned yet covers, by thread. */
  const syncing = new Map<number, { readonly file: string; readonly writes: number }>();
  let responses = 0;
  const violations: string[] = [];
  for (const { thread, name, begins, ends, text } of calls) {
    const file = database.exec(text)?.[0] ?? "";
    if (name.startsWith("pwrite") && begins && file !== "") {
      written.set(file, (written.get(file) ?? 0) + 1);
    } else if (name === "fsync" || name === "fdatasync") {
      if (begins) {
        syncing.set(thread, { file, writes: written.get(file) ?? 0 });
      }
      const done = syncing.get(thread);
      if (ends && done !== undefined && text.endsWith(" = 0")) {
        synced.set(done.file, done.writes);
      }
    } else if (begins && isResponse(text)) {
      responses++;
      const log = [...written].find(([of, writes]) => of.endsWith("-wal>") && writes > (synced.get(of) ?? 0));
      if (log !== undefined) {
        violations.push(`response ${responses} began before its writes were on the disk`);
      }
    }
  }
  return { responses, violations };
}

/** Whether a write to a socket has a status line of HTTP/1.1, or the first HEADERS of a stream of HTTP/2. */
function isResponse(text: string): boolean {
  if (!/\(\d+<(?:socket|TCP)/.test(text)) {
    return false;
  }
  const bytes = Buffer.concat(
    [...text.matchAll(/"((?:\\x[0-9a-f]{2})+)"/g)].map(([, hex = ""]) => decodeHex(hex)),
  ).toString("latin1");
  return (
    bytes.startsWith("HTTP/1.1 200") ||
    // The trailers of gRPC end the stream.
    framesIn(bytes).some(({ type, flags, streamId }) => type === frameType.headers && flags === 4 && streamId % 2 === 1)
  );
}
