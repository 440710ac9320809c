import { gzipSync } from "node:zlib";

/** A request, and the status that all adapters respond with. */
export type TestRequest = {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  readonly status: number;
  /** The response is aborted after its body. */
  readonly isAborted?: true;
  /** A Request can't represent it: a body of GET, or a method that the Fetch standard forbids. */
  readonly isNoFetchRequest?: true;
};

const json = { "content-type": "application/json" };
const ndjson = { "content-type": "application/x-ndjson" };
const form = { "content-type": "application/x-www-form-urlencoded" };
const multipart = { "content-type": "multipart/form-data; boundary=b" };
const thing = {
  text: "a thing ü 😀",
  large: "9007199254740993",
  data: "/+8=",
  ratio: -0,
  texts: ["one", "two"],
  struct: { deep: [{ a: null }, 1e300] },
};
const text = JSON.stringify({ text: "compressible ".repeat(200) });

const parts = [
  '--b\r\nContent-Disposition: form-data; name="title"\r\n\r\nü\r\n',
  '--b\r\nContent-Disposition: form-data; name="data"; filename="x"\r\n\r\n\u0000\r\n-\r\n',
  "--b--\r\n",
].join("");

export const requests: readonly TestRequest[] = [
  // Bodies
  { name: "JSON", method: "POST", path: "/things/echo", headers: json, body: JSON.stringify(thing), status: 200 },
  {
    name: "a wide integer as a number",
    method: "POST",
    path: "/things/echo",
    headers: json,
    body: '{"large":9007199254740993}',
    status: 200,
  },
  {
    name: "a status of its own",
    method: "PUT",
    path: "/things/open",
    headers: json,
    body: '{"id":"1","x":2}',
    status: 201,
  },
  {
    name: "a large body",
    method: "POST",
    path: "/things/echo",
    headers: json,
    body: JSON.stringify({ text: "x".repeat(90_000) }),
    status: 200,
  },
  { name: "an empty body", method: "POST", path: "/things/echo", headers: json, body: "", status: 200 },
  { name: "no body", method: "POST", path: "/things/echo", status: 200 },
  { name: "no body, but a required field", method: "PUT", path: "/things/open", headers: json, status: 400 },
  { name: "invalid JSON", method: "POST", path: "/things/echo", headers: json, body: '{"text":', status: 400 },
  {
    name: "invalid UTF-8",
    method: "POST",
    path: "/things/echo",
    headers: json,
    body: Uint8Array.of(0x22, 0xff, 0x22),
    status: 400,
  },
  { name: "an unknown field", method: "POST", path: "/things/echo", headers: json, body: '{"txt":1}', status: 400 },
  {
    name: "another media type",
    method: "POST",
    path: "/things/echo",
    headers: { "content-type": "text/xml" },
    body: "<x/>",
    status: 415,
  },
  {
    name: "a body over the limit",
    method: "POST",
    path: "/things/echo",
    headers: json,
    body: JSON.stringify({ text: "x".repeat(200_000) }),
    status: 413,
  },
  {
    name: "a body of GET",
    method: "GET",
    path: "/things/headers",
    headers: json,
    body: "{}",
    status: 400,
    isNoFetchRequest: true,
  },
  {
    name: "a form",
    method: "POST",
    path: "/things/form",
    headers: form,
    body: "user_name=J%C3%BCrgen+K&age=4",
    status: 200,
  },
  { name: "multipart", method: "POST", path: "/raw/attach", headers: multipart, body: parts, status: 200 },
  {
    name: "multipart without an end",
    method: "POST",
    path: "/raw/attach",
    headers: multipart,
    body: parts.slice(0, -6),
    status: 400,
  },
  {
    name: "a raw body",
    method: "POST",
    path: "/raw/echo",
    headers: { "content-type": "image/png" },
    body: Uint8Array.of(0, 255, 13, 10),
    status: 200,
  },
  {
    name: "a compressed body",
    method: "POST",
    path: "/things/echo",
    headers: { ...json, "content-encoding": "gzip" },
    body: gzipSync(text),
    status: 200,
  },
  {
    name: "a truncated compressed body",
    method: "POST",
    path: "/things/echo",
    headers: { ...json, "content-encoding": "gzip" },
    body: gzipSync(text).subarray(0, -12),
    status: 400,
  },
  {
    name: "a compressed body over the limit",
    method: "POST",
    path: "/things/echo",
    headers: { ...json, "content-encoding": "gzip" },
    body: gzipSync("x".repeat(200_000)),
    status: 413,
  },
  {
    name: "an unknown coding",
    method: "POST",
    path: "/things/echo",
    headers: { ...json, "content-encoding": "deflate" },
    body: "{}",
    status: 415,
  },
  // Paths and queries
  { name: "a path variable and a query", method: "GET", path: "/users/J%C3%BCrgen%2FK?age=4&admin=true", status: 200 },
  { name: "a plus sign in a path", method: "GET", path: "/users/a+b", status: 200 },
  { name: "an invalid escape in a query", method: "GET", path: "/users/a?age=%zz", status: 400 },
  { name: "an unknown parameter", method: "GET", path: "/users/a?agee=1", status: 400 },
  { name: "an invalid parameter", method: "GET", path: "/users/a?age=010", status: 400 },
  { name: "an unknown path", method: "GET", path: "/nowhere", status: 404 },
  { name: "an unknown path with a body", method: "POST", path: "/nowhere", headers: json, body: "{}", status: 404 },
  { name: "a trailing slash", method: "GET", path: "/things/headers/", status: 404 },
  // Methods
  { name: "HEAD", method: "HEAD", path: "/things/headers", status: 200 },
  { name: "HEAD of an unknown path", method: "HEAD", path: "/nowhere", status: 404 },
  { name: "HEAD of a stream", method: "HEAD", path: "/streams/s/items?count=3", status: 200 },
  { name: "OPTIONS", method: "OPTIONS", path: "/users/a", status: 204 },
  { name: "another method", method: "DELETE", path: "/users/a", status: 405 },
  { name: "another method with a body", method: "PATCH", path: "/things/echo", headers: json, body: "{}", status: 405 },
  { name: "a method that is not HTTP's", method: "PROPFIND", path: "/users/a", status: 405 },
  // Headers
  {
    name: "bound headers",
    method: "GET",
    path: "/things/headers",
    headers: { "x-speed": "fast", "x-count": "3" },
    status: 200,
  },
  { name: "an invalid header", method: "GET", path: "/things/headers", headers: { "x-speed": "quick" }, status: 400 },
  {
    name: "a tag that matches",
    method: "GET",
    path: "/things/headers",
    headers: { "x-count": "1", "if-none-match": '"1"' },
    status: 304,
  },
  {
    name: "Accept that excludes JSON",
    method: "GET",
    path: "/things/headers",
    headers: { accept: "text/html" },
    status: 406,
  },
  {
    name: "a deadline",
    method: "GET",
    path: "/things/headers",
    headers: { "connect-timeout-ms": "10000" },
    status: 200,
  },
  {
    name: "a malformed deadline",
    method: "GET",
    path: "/things/headers",
    headers: { "grpc-timeout": "soon" },
    status: 400,
  },
  // Errors
  { name: "an error with metadata", method: "GET", path: "/users/nobody", status: 404 },
  { name: "an unexpected error", method: "GET", path: "/users/bug", status: 500 },
  // CORS
  { name: "CORS", method: "GET", path: "/things/headers", headers: { origin: "https://app.example" }, status: 200 },
  {
    name: "CORS, another origin",
    method: "GET",
    path: "/things/headers",
    headers: { origin: "https://other.example" },
    status: 200,
  },
  {
    name: "a preflight",
    method: "OPTIONS",
    path: "/things/form",
    headers: { origin: "https://app.example", "access-control-request-method": "POST" },
    status: 204,
  },
  // Compression
  {
    name: "gzip",
    method: "POST",
    path: "/things/echo",
    headers: { ...json, "accept-encoding": "gzip" },
    body: text,
    status: 200,
  },
  {
    name: "no acceptable coding",
    method: "GET",
    path: "/things/headers",
    headers: { "accept-encoding": "identity;q=0" },
    status: 406,
  },
  // Streams
  { name: "NDJSON", method: "GET", path: "/streams/s/items?count=3", status: 200 },
  {
    name: "a compressed stream",
    method: "GET",
    path: "/streams/s/items?count=3",
    headers: { "accept-encoding": "gzip" },
    status: 200,
  },
  {
    name: "an event stream",
    method: "GET",
    path: "/streams/s/items?count=3",
    headers: { accept: "text/event-stream" },
    status: 200,
  },
  {
    name: "a JSON array",
    method: "GET",
    path: "/streams/s/items?count=3",
    headers: { accept: "application/json" },
    status: 200,
  },
  {
    name: "an empty stream",
    method: "GET",
    path: "/streams/s/items",
    headers: { accept: "application/json" },
    status: 200,
  },
  { name: "a stream that fails at once", method: "GET", path: "/streams/none/items?count=3", status: 404 },
  {
    name: "a stream that fails later",
    method: "GET",
    path: "/streams/broken/items?count=3",
    status: 200,
    isAborted: true,
  },
  {
    name: "an event stream that fails later",
    method: "GET",
    path: "/streams/broken/items?count=3",
    headers: { accept: "text/event-stream" },
    status: 200,
    isAborted: true,
  },
  { name: "a raw stream", method: "GET", path: "/streams/download/x", status: 200 },
  {
    name: "a client stream",
    method: "POST",
    path: "/streams/sum",
    headers: ndjson,
    body: '{"count":1}\n{"count":2}\n',
    status: 200,
  },
  {
    name: "a client stream with an invalid line",
    method: "POST",
    path: "/streams/sum",
    headers: ndjson,
    body: '{"count":1}\n{"count":x}\n',
    status: 400,
  },
  {
    name: "a compressed client stream",
    method: "POST",
    path: "/streams/sum",
    headers: { ...ndjson, "content-encoding": "gzip" },
    body: gzipSync('{"count":1}\n{"count":2}\n'),
    status: 200,
  },
  {
    name: "an upload",
    method: "POST",
    path: "/streams/upload",
    headers: { "content-type": "image/png" },
    body: new Uint8Array(300_000),
    status: 200,
  },
];
