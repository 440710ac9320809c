import { text as readText } from "node:stream/consumers";
import { fromJson, type JsonValue, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import {
  type ContextKeys,
  DeleteContextResponseSchema,
  GetContextResponseSchema,
  ListContextResponseSchema,
  SetContextResponseSchema,
} from "@flowgate/client";
import type { ClientContext } from "../client/action.ts";
import type { ClientSession } from "../client/session.ts";
import { UsageFailure } from "../failure.ts";
import { printable } from "../printable.ts";
import { parseValue } from "./inject.ts";
import { findNode, findTab, readNodes } from "./find-node.ts";

type StoreFlags = { readonly store?: string };

/** Prints a value; without a key the values of a scope; without a scope the keys of all. */
export async function getContext(
  { session, output }: ClientContext,
  name: string | undefined,
  { store = "" }: StoreFlags,
): Promise<void> {
  if (name === undefined) {
    const response = await session.context.listContext({ store });
    if (response.truncated) {
      process.stderr.write("flowgate: Only the first scopes are shown: there are too many.\n");
    }
    output.message(ListContextResponseSchema, response, () =>
      response.scopes.length === 0
        ? "The flows keep no values."
        : output.table(["SCOPE", "STORE", "KEYS"], response.scopes.map(toRow)),
    );
    return;
  }
  const scope = await resolveScope(session, name);
  const response = await session.context.getContext({ scope, store });
  const { value, values, format, truncated } = response;
  if (truncated) {
    process.stderr.write(
      "flowgate: The value is larger than 1 MiB, or contains what JSON can't represent: it is shortened.\n",
    );
  }
  output.message(GetContextResponseSchema, response, () => {
    if (values !== undefined) {
      return output.fields(Object.entries(values).map(([key, each]) => [printable(key), JSON.stringify(each)]));
    }
    return value === undefined ? printable(format) : formatValue(toJson(ValueSchema, value));
  });
}

/** Sets a value: JSON, or a text that is none. `-` is stdin. */
export async function setContext(
  { session, output }: ClientContext,
  name: string,
  text: string,
  { store = "", string }: StoreFlags & { readonly string?: true },
): Promise<void> {
  const scope = await resolveScope(session, name, { withKey: true });
  const content = text === "-" ? (await readText(process.stdin)).replace(/\r?\n$/, "") : text;
  const value = fromJson(ValueSchema, string === true ? content : parseValue(content));
  const response = await session.context.setContext({ scope, store, content: { value } });
  output.message(SetContextResponseSchema, response, () => `Set ${printable(scope)}.`);
}

export async function deleteContext(
  { session, output }: ClientContext,
  name: string,
  { store = "" }: StoreFlags,
): Promise<void> {
  const scope = await resolveScope(session, name, { withKey: true });
  const response = await session.context.deleteContext({ scope, store });
  output.message(DeleteContextResponseSchema, response, () => `Deleted ${printable(scope)}.`);
}

function toRow({ scope, store, keys, truncated }: ContextKeys): string[] {
  return [scope, store, `${keys.join(", ")}${truncated ? ", and more" : ""}`];
}

function formatValue(value: JsonValue): string {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return text
    .split(/\r?\n/)
    .map((line) => printable(line))
    .join("\n");
}

/** The scope of a request, in which tabs and nodes have their ids. Slashes in these are written as %2F. */
async function resolveScope(session: ClientSession, name: string, { withKey = false } = {}): Promise<string> {
  const [kind = "", ...parts] = name.split("/");
  const owner = kind === "global" ? undefined : parts.shift();
  const key = parts.join("/");
  if (!/^(?:global|flow|node)$/.test(kind) || (kind !== "global" && (owner ?? "") === "") || (withKey && key === "")) {
    throw new UsageFailure(
      `${name}: names no value. Write global/KEY, flow/TAB/KEY or node/NODE/KEY, with the label, name or id of the tab or node.`,
    );
  }
  if (owner === undefined) {
    return name;
  }
  const nodes = await readNodes(session);
  const label = owner.replaceAll(/%2F/gi, "/");
  const found = kind === "flow" ? findTab(nodes, label) : findNode(nodes, label);
  return [kind, (found?.id ?? label).replaceAll("/", "%2F"), ...(key === "" ? [] : [key])].join("/");
}
