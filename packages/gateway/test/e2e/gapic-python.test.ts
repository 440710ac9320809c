import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { codeBlocks } from "../../../../test/examples/example.ts";
import { hasPython, InstallationError, openPython } from "../../../../test/examples/python.ts";
import { succeed } from "../../../../test/examples/execute.ts";
import { missingProtoFiles } from "./googleapis/compile-protos.ts";
import { openGoogleServer, type GoogleServer } from "./gapic-python/server.ts";

const folder = join(import.meta.dirname, "gapic-python");

/** The Python that has the clients, or why there is none. */
async function findPython(): Promise<{ readonly program: string } | string> {
  if (!hasPython) {
    return "Python's venv is missing";
  }
  if (missingProtoFiles !== undefined) {
    return missingProtoFiles;
  }
  try {
    return { program: await openPython(join(folder, "requirements.txt")) };
  } catch (error) {
    if (error instanceof InstallationError) {
      return `the clients can't be installed: ${error.message}`;
    }
    throw error;
  }
}

const python = await findPython();
if (typeof python === "string") {
  process.stderr.write(`The tests of the preset "google" with clients of Google's are skipped: ${python}.\n`);
}

const info = (reason: string, metadata?: object) => ({
  "@type": "type.googleapis.com/google.rpc.ErrorInfo",
  reason,
  domain: "secrets.example",
  ...(metadata && { metadata }),
});
const failed = (exception: string, code: number, message: string, reason: string, metadata?: object) => ({
  exception,
  code,
  message,
  reason,
  metadata: metadata ?? null,
  details: [info(reason, metadata)],
});

const secret = (name: string): string => `projects/p/secrets/${name}`;
const documents = "projects/p/databases/d/documents";
const books = `${documents}/shelves/s/books`;

/** What the calls of client.py return or raise. */
const steps: [step: string, outcome: object][] = [
  ["create", { name: secret("e"), labels: { team: "e", ["__proto__"]: "x" }, automatic: true }],
  ["list", { pages: [[secret("a"), secret("b")], [secret("c"), secret("d")], [secret("e")]] }],
  ["get", { name: secret("a"), year: 2020, version_aliases: {} }],
  ["update with a mask", { labels: { team: "z" }, etag: "" }],
  // The mask has the fields of the body, so the labels are as before.
  ["update without a mask", { labels: { team: "z" }, aliases: { last: "9007199254740993" }, etag: "e" }],
  ["add a version", { name: `${secret("a")}/versions/1`, state: "ENABLED", is_enum: true }],
  ["access it", { equal: true, crc32c: "1099511627776" }],
  ["disable it", { state: "DISABLED" }],
  ["delete", { result: null }],
  [
    "no secret",
    failed("NotFound", 404, `there is no secret ${secret("none")}`, "SECRET_NOT_FOUND", { name: secret("none") }),
  ],
  ["a secret twice", failed("Conflict", 409, `there is a secret ${secret("a")} already`, "SECRET_EXISTS")],
  ["a disabled version", failed("BadRequest", 400, "the version is disabled", "VERSION_DISABLED")],
  ["no permission", failed("Forbidden", 403, "not your project", "IAM_PERMISSION_DENIED")],
  [
    "not implemented",
    {
      exception: "MethodNotImplemented",
      code: 501,
      message: "google.cloud.secretmanager.v1.SecretManagerService.EnableSecretVersion is not implemented",
      reason: null,
      metadata: null,
      details: [],
    },
  ],
  [
    "an invalid page",
    failed("BadRequest", 400, "page_token: is invalid", "INVALID_PAGE_TOKEN", { field: "page_token" }),
  ],
  [
    "stream",
    {
      documents: [
        [`${books}/1`, "1152921504606846976", 1],
        [`${books}/2`, "2305843009213693952", 2],
        [`${books}/3`, "3458764513820540928", 3],
      ],
    },
  ],
  ["an empty stream", { documents: [] }],
  ["a stream that fails", failed("NotFound", 404, "there is no such database", "DATABASE_NOT_FOUND")],
  // The exception of a connection that was aborted: the client does not read errors within a stream.
  ["a stream that fails later", { exception: "ChunkedEncodingError" }],
  ["list documents", { names: [`${books}/1`, `${books}/2`] }],
];

describe.skipIf(typeof python === "string")("the REST clients that Google generates for Python", () => {
  let server: GoogleServer;
  let outcomes: Map<string, object>;
  beforeAll(async () => {
    server = await openGoogleServer();
    const { program } = python as Exclude<typeof python, string>;
    const output = await succeed(program, [join(folder, "client.py"), `127.0.0.1:${server.port}`]);
    const lines = output.trim().split("\n");
    outcomes = new Map(
      lines.map((line) => {
        const { step, ...outcome } = JSON.parse(line) as { step: string };
        return [step, outcome];
      }),
    );
  });
  afterAll(() => server[Symbol.asyncDispose]());

  test.each(steps)("%s", (step, outcome) => {
    expect(outcomes.get(step)).toEqual(outcome);
  });

  test("all calls of the program are in the table", () => {
    expect([...outcomes.keys()]).toEqual(steps.map(([step]) => step));
  });

  test("send their parameters, and ask for numbers of enum values", async () => {
    const alt = "$alt=json;enum-encoding=int";
    expect(server.requests.filter((request) => !request.endsWith(alt))).toEqual([]);
    expect(server.requests).toEqual(
      expect.arrayContaining([
        `POST /v1/projects/p/secrets?secretId=a&${alt}`,
        `GET /v1/projects/p/secrets?pageSize=2&pageToken=4&${alt}`,
        `PATCH /v1/${secret("a")}?updateMask=labels,versionAliases&${alt}`,
        `PATCH /v1/${secret("a")}?${alt}`,
        `POST /v1/${documents}/shelves/s:runQuery?${alt}`,
      ]),
    );
  });

  test("are used as the documentation shows", async () => {
    const page = await readFile(join(folder, "../../../docs/google.md"), "utf8");
    const [code = ""] = codeBlocks(page, "python");
    await using own = await openGoogleServer();
    const { program } = python as Exclude<typeof python, string>;
    const output = await succeed(program, ["-c", code.replace("127.0.0.1:8080", `127.0.0.1:${own.port}`)]);
    const [first, second] = output.split("\n");
    expect([first, second]).toEqual([
      secret("a"),
      expect.stringMatching(/: there is no secret projects\/p\/secrets\/none SECRET_NOT_FOUND \{'name': '.*'\}$/),
    ]);
  });
});
