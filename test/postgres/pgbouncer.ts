import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../free-port.ts";

/** The program of Debian's package pgbouncer. */
export const pgbouncer = "/usr/sbin/pgbouncer";

/** Runs pgbouncer before the server of `url`, and returns the URL of the same database through it. */
export async function openPgbouncer(
  url: string,
  mode: "session" | "transaction",
): Promise<AsyncDisposable & { url: string }> {
  const { port, username, password } = new URL(url);
  const folder = await mkdtemp(join(tmpdir(), "flowgate-pgbouncer-"));
  const listenPort = await freePort();
  await writeFile(join(folder, "users.txt"), `"${username}" "${password}"\n`);
  await writeFile(
    join(folder, "pgbouncer.ini"),
    `[databases]
     * = host=127.0.0.1 port=${port}
     [pgbouncer]
     listen_addr = 127.0.0.1
     listen_port = ${listenPort}
     unix_socket_dir =
     auth_type = scram-sha-256
     auth_file = ${folder}/users.txt
     pool_mode = ${mode}
     default_pool_size = 10
     `.replaceAll(/^ +/gm, ""),
  );
  // It does not run as root.
  const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
  await chmod(folder, 0o755);
  const child = spawn(pgbouncer, [join(folder, "pgbouncer.ini")], { ...user, stdio: ["ignore", "ignore", "pipe"] });
  const exited = once(child, "exit");
  await new Promise<void>((resolve, reject) => {
    let log = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      log += text;
      if (log.includes("process up")) {
        resolve();
      }
    });
    child.once("exit", () => reject(new Error(`pgbouncer ended after it logged:\n${log}`)));
  });
  return {
    url: url.replace(`:${port}/`, `:${listenPort}/`),
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await exited;
      await rm(folder, { recursive: true });
    },
  };
}
