import { isDeepStrictEqual } from "node:util";
import { CliFailure, UsageFailure } from "../failure.ts";
import type { Output } from "../output/output.ts";
import { printable } from "../printable.ts";
import {
  changeClientConfig,
  type ClientConfig,
  type ConfigChange,
  clientConfigPath,
  type ServiceContext,
  readClientConfig,
} from "./config.ts";
import type { ConnectionFlags } from "./connection-flags.ts";
import { contextFlags, parseServer } from "./connection.ts";

export async function listContexts(output: Output): Promise<void> {
  const config = await readClientConfig(process.env);
  const contexts = Object.entries(config.contexts).map(([name, { server }]) => ({
    name,
    current: name === config.currentContext,
    server,
    user: userAt(server, config),
  }));
  output.value(contexts, () =>
    contexts.length === 0
      ? "There are no contexts. Add one with flowgate context add."
      : output.table(
          ["", "NAME", "SERVER", "USER"],
          contexts.map(({ name, current, server, user }) => [
            { style: "green", text: current ? "*" : "" },
            name,
            server,
            user,
          ]),
        ),
  );
}

export async function showContext(output: Output, given: string | undefined): Promise<void> {
  const config = await readClientConfig(process.env);
  const name = given ?? config.currentContext;
  if (name === undefined) {
    throw new CliFailure("There is no current context: choose one with flowgate context use.");
  }
  const context = find(config, name);
  const user = userAt(context.server, config);
  output.value({ name, ...context, user }, () =>
    output.fields([
      ["Name", name],
      ...Object.entries(labels).map(([key, label]): [string, string] => {
        const value = context[key as keyof ServiceContext];
        return [label, value === undefined ? "" : String(value)];
      }),
      ["User", user],
    ]),
  );
}

const labels = {
  server: "Server",
  caFile: "CA file",
  certFile: "Certificate",
  keyFile: "Private key",
  tlsServerName: "TLS server name",
  insecureSkipTlsVerify: "Skip TLS verification",
  insecureAllowHttp: "Allow HTTP",
} as const satisfies Record<keyof ServiceContext, string>;

export async function useContext(name: string): Promise<void> {
  find(await readClientConfig(process.env), name);
  await changeClientConfig(process.env, [{ path: ["currentContext"], value: name }]);
  process.stdout.write(`The current context is ${printable(name)}.\n`);
}

export async function addContext(name: string, flags: ConnectionFlags): Promise<void> {
  if (flags.server === undefined) {
    throw new UsageFailure("context add requires --server, the URL of the server.");
  }
  if (!/^[\w.@-]+$/.test(name)) {
    throw new UsageFailure("The name of a context has letters, digits, and . _ - @ only.");
  }
  const config = await readClientConfig(process.env);
  if (Object.hasOwn(config.contexts, name)) {
    throw new CliFailure(`The context ${name} exists: remove it first, with flowgate context remove ${name}.`);
  }
  const { server } = parseServer(flags.server, "--server");
  const isFirst = config.currentContext === undefined;
  await changeClientConfig(process.env, [
    { path: ["contexts", name], value: { server, ...contextFlags(flags) } },
    ...(isFirst ? [{ path: ["currentContext"], value: name }] : []),
  ]);
  process.stdout.write(`Added the context ${name}${isFirst ? ", which is the current one" : ""}.\n`);
}

/** What makes a server the current one: its context, which is added if there is none. No changes: it is the current one. */
export function selectServer(
  { contexts, currentContext }: ClientConfig,
  named: ServiceContext,
): { readonly name: string; readonly changes: readonly ConfigChange[] } {
  const isCurrent = currentContext !== undefined && contexts[currentContext]?.server === named.server;
  const known = isCurrent
    ? currentContext
    : Object.keys(contexts).find((each) => contexts[each]?.server === named.server);
  const name = known ?? unusedName(named.server, contexts);
  const context = { path: ["contexts", name], value: { ...contexts[name], ...named } };
  return {
    name,
    changes: [
      ...(isDeepStrictEqual(context.value, contexts[name]) ? [] : [context]),
      ...(isCurrent ? [] : [{ path: ["currentContext"], value: name }]),
    ],
  };
}

/** The host and port of a server, or the path of its socket, as the name of a context. */
function unusedName(server: string, contexts: ClientConfig["contexts"]): string {
  const name = server.replace(/^\w+:\/*/, "").replaceAll(/[^\w.@-]+/g, "-");
  const isUsed = (each: string): boolean => Object.hasOwn(contexts, each);
  let unused = name;
  for (let number = 2; isUsed(unused); number += 1) {
    unused = `${name}-${number}`;
  }
  return unused;
}

export async function removeContext(name: string): Promise<void> {
  const config = await readClientConfig(process.env);
  const { server } = find(config, name);
  const isShared = Object.entries(config.contexts).some(([other, each]) => other !== name && each.server === server);
  await changeClientConfig(process.env, [
    { path: ["contexts", name], value: undefined },
    ...(config.currentContext === name ? [{ path: ["currentContext"], value: undefined }] : []),
    ...(isShared ? [] : [{ path: ["tokens", server], value: undefined }]),
  ]);
  process.stdout.write(`Removed the context ${name}.\n`);
}

function find({ contexts }: ClientConfig, name: string): ServiceContext {
  const context = Object.hasOwn(contexts, name) ? contexts[name] : undefined;
  if (context === undefined) {
    const names = Object.keys(contexts).join(", ");
    throw new CliFailure(
      `There is no context ${printable(name)} in ${clientConfigPath(process.env)}${names === "" ? "" : `, only: ${printable(names)}`}.`,
    );
  }
  return context;
}

function userAt(server: string, { tokens }: ClientConfig): string {
  return Object.hasOwn(tokens, server) ? (tokens[server]?.user ?? "") : "";
}
