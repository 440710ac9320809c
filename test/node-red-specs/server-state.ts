import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { eventually } from "../e2e/service.ts";
import type { Exchange } from "./forwarded-request.ts";

export type TestedServer = { readonly url: string; readonly modulesDir: string };

type Fields = Readonly<Record<string, unknown>>;

/** A type of nodes with credentials, in the module that both servers have. */
export const credentialsModule = {
  name: "test-module",
  type: "known-type",
  credentials: { user1: { type: "text" }, password1: { type: "password" } },
};

const place = { x: 100, y: 100, wires: [] };
/** Of nodes whose tab a request does not name. */
const tabId = "tab";

/** Gives a server the state in which it would answer a request as the stubs of a test have answered it, where a server has such a state. */
export async function prepareState(server: TestedServer, exchange: Exchange): Promise<void> {
  const { method, path, status, body } = exchange;
  if (status >= 300) {
    return;
  }
  const [route = "", query = ""] = path.split("?");
  const [, area = "", ...rest] = route.replace(/\/$/, "").split("/").map(decodeURIComponent);
  const [first = "", second = ""] = rest;

  if (area === "flows" || area === "flow") {
    await post(server, "/flows/state", { state: "start" });
    await deploy(server, tabsOf(method === "GET" && area === "flows" ? body : "", first));
  } else if (area === "credentials") {
    const credentials = Object.entries(parse(body)).map(([name, value]) =>
      typeof value === "string" ? [name, value] : [name.replace(/^has_/, ""), "a password"],
    );
    const node = {
      id: second,
      type: first,
      z: tabId,
      ...place,
      credentials: Object.fromEntries(credentials) as Fields,
    };
    await deploy(server, [tab(tabId), node]);
  } else if (area === "context") {
    await setContext(server, rest, new URLSearchParams(query).get("store"), parse(body));
  } else if (area === "library" && method === "GET") {
    const isFlow = second === "flows";
    await post(server, route, isFlow ? parse(body) : { text: body });
  } else if (route === "/settings/user" && method === "GET") {
    await post(server, route, parse(body));
  } else if (area === "resources") {
    const file = join(server.modulesDir, first, "resources", ...rest.slice(1));
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, body);
  }
}

function parse(body: string): Fields {
  try {
    return Object(JSON.parse(body)) as Fields;
  } catch {
    return {};
  }
}

/** As many tabs as a response has elements, and the one that a request names. */
function tabsOf(body: string, id: string): object[] {
  const answered = parse(body);
  const flows = Array.isArray(answered) ? answered : answered["flows"];
  const count = Array.isArray(flows) ? flows.length : 0;
  const ids = Array.from({ length: count }, (_, index) => `tab ${index}`);
  return [...ids, ...(id === "" || id === "state" ? [] : [id])].map(tab);
}

function tab(id: string): object {
  return { id, type: "tab", label: id };
}

/** Deploys a function node that sets the values which a response shows, and waits until it has. */
async function setContext(
  server: TestedServer,
  [scope = "", ...names]: readonly string[],
  named: string | null,
  answered: Fields,
): Promise<void> {
  const [id = ""] = scope === "global" ? [] : names;
  const key = names.slice(scope === "global" ? 0 : 1).join("/");
  const values: readonly Value[] =
    key === ""
      ? Object.entries(answered).flatMap(([store, keys]) =>
          Object.entries(Object(keys) as Fields).map(([key, shown]) => ({ store, key, shown: shown as Shown })),
        )
      : [{ store: named ?? "default", key, shown: answered }];
  const holder = scope === "node" ? "context" : scope;
  const initialize = values
    .map(
      ({ store, key, shown }) =>
        `${holder}.set(${[key, valueOf(shown), store].map((each) => JSON.stringify(each)).join()});`,
    )
    .join("\n");
  const z = scope === "flow" ? id : tabId;
  const node = {
    id: scope === "node" ? id : "setter",
    type: "function",
    z,
    ...place,
    func: "",
    outputs: 0,
    initialize,
  };
  await deploy(server, [tab(z), node]);
  const path = `/context/${scope}${id === "" ? "" : `/${id}`}`;
  await eventually(async () => {
    const text = JSON.stringify(await (await fetch(`${server.url}${path}`)).json());
    const absent = values.filter(({ key }) => !text.includes(JSON.stringify(key)));
    if (absent.length > 0) {
      throw new Error(`${path} lacks ${absent.map(({ key }) => key).join()}: ${text}`);
    }
  }, 10_000);
}

type Shown = { readonly msg?: string; readonly format?: string };
type Value = { readonly store: string; readonly key: string; readonly shown: Shown };

function valueOf({ msg = "1", format = "number" }: Shown): unknown {
  return format === "number" || format === "boolean" ? JSON.parse(msg) : msg;
}

async function deploy(server: TestedServer, flows: readonly object[]): Promise<void> {
  await post(server, "/flows", flows);
}

async function post({ url }: TestedServer, path: string, body: unknown): Promise<void> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) {
    throw new Error(`the state can't be prepared: POST ${path} was answered ${response.status}: ${text}`);
  }
}
