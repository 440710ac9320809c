import { once } from "node:events";
import { connect } from "node:net";
import type { Connection, ConnectionEvents } from "./process.ts";
import type { Answer, Target } from "./target.ts";

const headEnd = Buffer.from("\r\n\r\n");

/** A keep-alive connection of HTTP/1.1. Calls are not pipelined: one at a time. */
export async function openHttp1Connection(
  url: string,
  target: Target,
  { status, body }: Answer,
  events: ConnectionEvents,
): Promise<Connection> {
  const { hostname, port, host } = new URL(url);
  const request = formatRequest(host, target);
  const fail = (reason: string) => {
    events.failed(new Error(`${target.path}: ${reason}`));
    socket.destroy();
  };
  const reader = createAnswerReader(status, body.length, fail, () => events.answered(connection));
  const socket = connect({
    host: hostname,
    port: Number(port),
    noDelay: true,
    onread: {
      // One buffer for all that arrives: none is allocated for each chunk.
      buffer: Buffer.allocUnsafe(256 * 1024),
      callback(length, buffer) {
        reader(Buffer.from(buffer.buffer, buffer.byteOffset, length));
        return true;
      },
    },
  });
  const connection: Connection = { call: () => void socket.write(request), close: () => socket.destroy() };
  await once(socket, "connect");
  socket.on("error", ({ message }) => fail(message));
  socket.on("end", () => fail("the server ended the connection"));
  return connection;
}

function formatRequest(host: string, { method = "GET", path, headers = {}, body }: Target): Buffer {
  const fields = { host, ...headers, ...(body === undefined ? {} : { "content-length": `${body.length}` }) };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.concat([Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n`), body ?? Buffer.alloc(0)]);
}

type Body =
  /** So many bytes are still to come. */
  | { kind: "length"; left: number }
  /** `left` bytes of a chunk are still to come, its line end included; 0: the line with its size is. */
  | { kind: "chunks"; left: number; isLast: boolean };

/** Calls `answered` after each answer, `fail` when one is not like the first one. Takes the bytes as they arrive. */
function createAnswerReader(
  status: number,
  bodyBytes: number,
  fail: (reason: string) => void,
  answered: () => void,
): (bytes: Buffer) => void {
  const hasNoBody = status === 304 || status === 204;
  /** A head, or a line with a chunk's size, of which a part has arrived. */
  let part: Buffer | undefined;
  let body: Body | undefined;
  let read = 0;

  /** Returns how much of the bytes it took; 0: more must arrive. */
  const readHead = (bytes: Buffer): number => {
    const end = bytes.indexOf(headEnd);
    if (end < 0) {
      return 0;
    }
    const head = bytes.toString("latin1", 0, end);
    if (Number(head.slice(9, 12)) !== status) {
      fail(`the status is ${head.slice(9, 12)} instead of ${status}`);
    }
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
    read = 0;
    body =
      length === undefined && !hasNoBody
        ? { kind: "chunks", left: 0, isLast: false }
        : { kind: "length", left: hasNoBody ? 0 : Number(length) };
    return end + headEnd.length;
  };

  const readBody = (body: Body, bytes: Buffer): number => {
    if (body.kind === "chunks" && body.left === 0) {
      const end = bytes.indexOf("\r\n");
      if (end < 0) {
        return 0;
      }
      const size = Number.parseInt(bytes.toString("latin1", 0, end), 16);
      body.isLast = size === 0;
      body.left = size + 2;
      read += size;
      return end + 2;
    }
    const taken = Math.min(bytes.length, body.left);
    body.left -= taken;
    read += body.kind === "length" ? taken : 0;
    return taken;
  };

  const isComplete = (body: Body): boolean => body.left === 0 && (body.kind === "length" || body.isLast);

  return (arrived) => {
    let bytes = part === undefined ? arrived : Buffer.concat([part, arrived]);
    part = undefined;
    while (bytes.length > 0) {
      const taken = body === undefined ? readHead(bytes) : readBody(body, bytes);
      if (taken === 0) {
        // The socket's buffer is used again.
        part = Buffer.from(bytes);
        return;
      }
      bytes = bytes.subarray(taken);
      if (body !== undefined && isComplete(body)) {
        body = undefined;
        if (read !== bodyBytes) {
          fail(`the body has ${read} bytes instead of ${bodyBytes}`);
        }
        answered();
      }
    }
  };
}
