import { isDeepStrictEqual } from "node:util";
import { CliFailure, UsageFailure } from "../failure.ts";
import type { Output } from "../output/output.ts";
import { printable } from "../printable.ts";
import {
  changeClientConfig,
  type ClientConfig,
  type ConfigChange,
  clientConfigPath,
  readClientConfig,
  type SavedServer,
} from "./config.ts";
import type { ConnectionFlags } from "./connection-flags.ts";
import { type NamedServer, parseServer, serverFlags } from "./connection.ts";

export async function listServers(output: Output): Promise<void> {
  const { currentServer, servers: saved, tokens } = await readClientConfig(process.env);
  const servers = Object.entries(saved).map(([name, server]) => ({
    name,
    current: name === currentServer,
    ...server,
    user: Object.hasOwn(tokens, server.server) ? (tokens[server.server]?.user ?? "") : "",
  }));
  output.value(servers, () =>
    servers.length === 0
      ? "There are no servers. Add one with flowgate server add or flowgate login --server."
      : output.table(
          ["", "NAME", "SERVER", "USER"],
          servers.map(({ name, current, server, user }) => [
            { style: "green", text: current ? "*" : "" },
            name,
            server,
            user,
          ]),
        ),
  );
}

export async function useServer(name: string): Promise<void> {
  find(await readClientConfig(process.env), name);
  await changeClientConfig(process.env, [{ path: ["currentServer"], value: name }]);
  process.stdout.write(`The current server is ${printable(name)}.\n`);
}

export async function addServer(name: string, url: string, flags: ConnectionFlags): Promise<void> {
  if (flags.server !== undefined) {
    throw new UsageFailure("server add takes the URL of the server as an argument, without --server.");
  }
  if (!/^[\w.@-]+$/.test(name)) {
    throw new UsageFailure("The name of a server has letters, digits, and . _ - @ only.");
  }
  const { servers, currentServer } = await readClientConfig(process.env);
  if (Object.hasOwn(servers, name)) {
    throw new CliFailure(`The server ${name} exists: remove it first, with flowgate server remove ${name}.`);
  }
  const { server } = parseServer(url, "server add");
  const isFirst = currentServer === undefined;
  await changeClientConfig(process.env, [
    { path: ["servers", name], value: { server, ...serverFlags(flags) } },
    ...(isFirst ? [{ path: ["currentServer"], value: name }] : []),
  ]);
  process.stdout.write(`Added the server ${name}${isFirst ? ", which is the current one" : ""}.\n`);
}

/** The changes that make a server the current one, and add it if it is not saved. Empty if it already is. */
export function selectServer(
  { servers, currentServer }: ClientConfig,
  { name: given, ...named }: NamedServer,
): { readonly name: string; readonly changes: readonly ConfigChange[] } {
  const candidates = [...(currentServer === undefined ? [] : [currentServer]), ...Object.keys(servers)];
  const name =
    given ?? candidates.find((each) => servers[each]?.server === named.server) ?? unusedName(named.server, servers);
  const value = { ...servers[name], ...named };
  return {
    name,
    changes: [
      ...(isDeepStrictEqual(value, servers[name]) ? [] : [{ path: ["servers", name], value }]),
      ...(name === currentServer ? [] : [{ path: ["currentServer"], value: name }]),
    ],
  };
}

/** The host and port of a server, or the path of its socket, as a name. */
function unusedName(server: string, servers: ClientConfig["servers"]): string {
  const name = server.replace(/^\w+:\/*/, "").replaceAll(/[^\w.@-]+/g, "-");
  let unused = name;
  for (let number = 2; Object.hasOwn(servers, unused); number += 1) {
    unused = `${name}-${number}`;
  }
  return unused;
}

export async function removeServer(name: string): Promise<void> {
  const config = await readClientConfig(process.env);
  const { server } = find(config, name);
  const isShared = Object.entries(config.servers).some(([other, each]) => other !== name && each.server === server);
  await changeClientConfig(process.env, [
    { path: ["servers", name], value: undefined },
    ...(config.currentServer === name ? [{ path: ["currentServer"], value: undefined }] : []),
    ...(isShared ? [] : [{ path: ["tokens", server], value: undefined }]),
  ]);
  process.stdout.write(`Removed the server ${name}.\n`);
}

function find({ servers }: ClientConfig, name: string): SavedServer {
  const saved = Object.hasOwn(servers, name) ? servers[name] : undefined;
  if (saved === undefined) {
    const names = Object.keys(servers).join(", ");
    throw new CliFailure(
      `There is no server ${printable(name)} in ${clientConfigPath(process.env)}${names === "" ? "" : `, only: ${printable(names)}`}.`,
    );
  }
  return saved;
}
