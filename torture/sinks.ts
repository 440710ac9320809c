import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { decompress } from "../src/store/sql/revision-row.ts";
import { runCli } from "../test/cli/run-cli.ts";
import type { Service } from "../test/e2e/service.ts";
import type { Collector } from "../test/telemetry/collector.ts";

/** A place where a secret could appear, and what is there. */
export type Sink = { readonly name: string; readonly content: string | Buffer };

/** Reads what a service has written. `headers` are those of a user who may read everything. */
export async function readSinks(
  service: Service,
  collector: Collector,
  metricsUrl: string,
  headers: Readonly<Record<string, string>>,
): Promise<Sink[]> {
  const get = async (path: string, url?: string): Promise<Sink> => {
    const body = url === undefined ? (await service.send("GET", path, { headers })).body : await fetchText(url + path);
    return { name: `GET ${path}`, content: body };
  };
  const traces = collector.requests.map((request) => ({ name: "traces", content: request.bytes }));
  return [
    ...service
      .log()
      .split("\n")
      .map((line) => ({ name: "the log", content: line })),
    ...traces,
    await get("/metrics", metricsUrl),
    ...(await Promise.all(
      ["/flows", "/settings", "/audit:export", "/revisions", "/tokens", "/openapi.json"].map((path) => get(path)),
    )),
    ...(await readFiles(service.dataDir)),
    ...(await readRevisions(service.dataDir)),
    ...(await readProcesses(service)),
    await readBackup(service.dataDir),
  ];
}

async function fetchText(url: string): Promise<string> {
  return (await fetch(url)).text();
}

export async function readFiles(folder: string): Promise<Sink[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return Promise.all(
    entries
      .filter((entry) => entry.isFile() && !entry.parentPath.includes("node_modules"))
      .map(async ({ parentPath, name }) => ({
        name: `the file ${name}`,
        content: await readFile(join(parentPath, name)),
      })),
  );
}

/** The flows of all revisions, which the database has in compressed form. */
async function readRevisions(dataDir: string): Promise<Sink[]> {
  using db = new DatabaseSync(join(dataDir, "flowgate.db"));
  const rows = db.prepare("SELECT flows FROM revision_content").all() as { flows: Uint8Array }[];
  return Promise.all(rows.map(async ({ flows }) => ({ name: "a revision", content: await decompress(flows) })));
}

async function readProcesses(service: Service): Promise<Sink[]> {
  const pids = [service.pid, ...(await service.childPids())];
  const read = (pid: number) =>
    ["cmdline", "environ"].map(async (file) => ({
      name: `${file} of a process`,
      content: await readFile(`/proc/${pid}/${file}`),
    }));
  return Promise.all(pids.flatMap(read));
}

async function readBackup(dataDir: string): Promise<Sink> {
  const file = join(dataDir, "..", `${Date.now()}.backup`);
  const { code, stderr } = await runCli(["backup", file, "--data-dir", dataDir]);
  if (code !== 0) {
    throw new Error(`the backup has failed: ${stderr}`);
  }
  return { name: "a backup", content: await readFile(file) };
}

/** What the service prints when it can't connect to a database with this URL. */
export async function readDatabaseFailure(url: string, dataDir: string): Promise<Sink> {
  const { stdout, stderr } = await runCli(["--store", url, "--data-dir", dataDir, "--port", "0"]);
  return { name: "the error of a database", content: stdout + stderr };
}
