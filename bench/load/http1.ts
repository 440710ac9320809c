import { once } from "node:events";
import { connect } from "node:net";
import type { CallResponse, Connection, ConnectionEvents, Target } from "./target.ts";

const headEnd = Buffer.from("\r\n\r\n");

/** Opens a keep-alive connection of HTTP/1.1 with one call at a time. */
export async function openHttp1Connection(
  url: string,
  target: Target,
  { status, body }: CallResponse,
  events: ConnectionEvents,
): Promise<Connection> {
  const { hostname, port, host } = new URL(url);
  const request = formatRequest(host, target);
  const fail = (reason: string) => {
    events.onFailure(new Error(`${target.path}: ${reason}`));
    socket.destroy();
  };
  const reader = createResponseReader(status, body.length, fail, () => events.onResponse(connection));
  const socket = connect({
    host: hostname,
    port: Number(port),
    noDelay: true,
    onread: {
      // One buffer for all reads, so that none is allocated per chunk.
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
  socket.on("end", () => fail("the server closed the connection"));
  return connection;
}

function formatRequest(host: string, { method = "GET", path, headers = {}, body }: Target): Buffer {
  const fields = { host, ...headers, ...(body === undefined ? {} : { "content-length": `${body.length}` }) };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.concat([Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n`), body ?? Buffer.alloc(0)]);
}

type Body =
  /** `left` bytes are outstanding. */
  | { kind: "length"; left: number }
  /** `left` bytes of a chunk are outstanding, including its line end. 0 before the line with its size. */
  | { kind: "chunks"; left: number; isLast: boolean };

/** Returns a function that takes received bytes. Calls `onResponse` for each response, and `fail` if one differs from the first. */
function createResponseReader(
  status: number,
  bodyBytes: number,
  fail: (reason: string) => void,
  onResponse: () => void,
): (bytes: Buffer) => void {
  const hasNoBody = status === 304 || status === 204;
  /** An incomplete head or chunk size line. */
  let part: Buffer | undefined;
  let body: Body | undefined;
  let read = 0;

  /** Returns the number of bytes read; 0 if the head is incomplete. */
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
    const count = Math.min(bytes.length, body.left);
    body.left -= count;
    read += body.kind === "length" ? count : 0;
    return count;
  };

  const isComplete = (body: Body): boolean => body.left === 0 && (body.kind === "length" || body.isLast);

  return (received) => {
    let bytes = part === undefined ? received : Buffer.concat([part, received]);
    part = undefined;
    while (bytes.length > 0) {
      const count = body === undefined ? readHead(bytes) : readBody(body, bytes);
      if (count === 0) {
        // Copies the bytes, because the socket's buffer is reused.
        part = Buffer.from(bytes);
        return;
      }
      bytes = bytes.subarray(count);
      if (body !== undefined && isComplete(body)) {
        body = undefined;
        if (read !== bodyBytes) {
          fail(`the body has ${read} bytes instead of ${bodyBytes}`);
        }
        onResponse();
      }
    }
  };
}
