// Runs Node-RED's tests of its admin API, and sends the result of each to the process that has started it. Arguments: a checkout of Node-RED, the
// URL of the server whose responses the tests get (or nothing: those of their own routers), and the folder of its modules.
import { createRequire } from "node:module";
import { globSync } from "node:fs";
import { join } from "node:path";
import { type Exchange, forwardRequests, type Supertest } from "./forwarded-request.ts";
import { prepareState } from "./server-state.ts";

export type SpecResult = {
  readonly file: string;
  readonly title: string;
  /** Undefined: passed. */
  readonly failure: string | undefined;
  readonly exchanges: readonly Exchange[];
};

type MochaTest = { readonly file: string; titlePath(): string[]; readonly state?: string };
type Mocha = {
  addFile(file: string): void;
  run(done: (failures: number) => void): {
    on(event: string, listener: (test: MochaTest, error?: Error) => void): void;
  };
};

const [checkout = "", url = "", modulesDir = ""] = process.argv.slice(2);
const requireThere = createRequire(join(checkout, "package.json"));
const folder = join(checkout, "test/unit/@node-red/editor-api");

/** One test mounts a route at another path than Node-RED does, and some name the default store of context as it was called once. */
function pathOf(path: string): string {
  return path.replace(/^\/getIcons$/, "/icons").replace(/\bstore=memory$/, "store=default");
}

let exchanges: Exchange[] = [];
let failure: string | undefined;
const destination =
  url === ""
    ? undefined
    : { url, pathOf, prepare: (exchange: Exchange) => prepareState({ url, modulesDir }, exchange) };
const name = requireThere.resolve("supertest");
const supertest = requireThere("supertest") as Supertest;
const loaded = requireThere.cache[name];
if (loaded === undefined) {
  throw new Error("supertest was not loaded");
}
loaded.exports = forwardRequests(supertest, { destination, report: (exchange) => void exchanges.push(exchange) });

const Mocha = requireThere("mocha") as new (options: object) => Mocha;
const mocha = new Mocha({ reporter: function silent() {}, timeout: 60_000 });
for (const file of globSync("**/*_spec.js", { cwd: folder }).toSorted()) {
  mocha.addFile(join(folder, file));
}
const runner = mocha.run(() => process.disconnect?.());
runner.on("test", () => {
  exchanges = [];
  failure = undefined;
});
runner.on("fail", (_test, error) => {
  failure = error?.message ?? "failed";
});
runner.on("test end", (test) => {
  // Skipped by Node-RED itself.
  if (test.state === undefined || test.state === "pending") {
    return;
  }
  const result: SpecResult = {
    file: test.file.slice(folder.length + "/lib/".length),
    title: test.titlePath().join(" / "),
    failure,
    exchanges,
  };
  process.send?.(result);
});
process.once("disconnect", () => process.exit());
