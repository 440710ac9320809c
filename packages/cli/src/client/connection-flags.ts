import { type Command, Option } from "commander";
import { UsageFailure } from "../failure.ts";

/** The flags by which a client command finds its server. */
export type ConnectionFlags = {
  readonly server?: string;
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
  readonly tlsServerName?: string;
  readonly insecureSkipTlsVerify?: true;
  readonly insecureAllowHttp?: true;
  readonly timeout?: string;
};

const outputFlag = "output";

/** Adds the flags of all client commands. They may also precede the name of the command. */
export function addConnectionFlags(root: Command): void {
  root
    .option(
      "-s, --server <server>",
      "URL of the server, unix:<path> of its socket, or the name of a saved one (env: FLOWGATE_SERVER)",
    )
    .option("--ca-file <path>", "trust the certificates in this PEM file only")
    .option("--cert-file <path>", "certificate of the client, PEM")
    .option("--key-file <path>", "private key of the client's certificate, PEM")
    .option("--tls-server-name <name>", "name that the certificate of the server must have")
    .option("--insecure-skip-tls-verify", "do not check the certificate of the server")
    .option("--insecure-allow-http", "send tokens and passwords unencrypted to other machines")
    .option("--timeout <seconds>", "how long to wait for each answer of the server")
    .addOption(
      new Option(`-o, --${outputFlag} <format>`, "print in this format, for programs").choices(["json", "yaml"]),
    );
}

const withoutConnection = new WeakMap<Command, { readonly output: boolean }>();

/**
 * Marks a command that connects to no server: its help does not show the connection flags, and giving them is an error.
 * With `output`, it has `--output`.
 */
export function withoutServer(command: Command, { output = false }: { readonly output?: boolean } = {}): Command {
  withoutConnection.set(command, { output });
  return command.hook("preAction", (_, called) => {
    // A group's hooks run for its commands too.
    if (called !== command) {
      return;
    }
    const root = rootOf(command);
    const given = root.options.find(
      (option) => !takes(command, option) && root.getOptionValueSource(option.attributeName()) === "cli",
    );
    if (given !== undefined) {
      throw new UsageFailure(
        `${command.name()} takes no ${given.long ?? given.flags}, since it connects to no server.`,
      );
    }
  });
}

/** Fails with this message if a command that works without a server, because of its flags, was given one too. */
export function assertNoServer(command: Command, message: string): void {
  if (rootOf(command).opts<ConnectionFlags>().server !== undefined) {
    throw new UsageFailure(message);
  }
}

/** The options of the root that a command takes too. */
export function globalOptionsOf(command: Command): Option[] {
  return rootOf(command).options.filter((option) => option.long !== "--version" && takes(command, option));
}

function takes(command: Command, option: Option): boolean {
  const marked = withoutConnection.get(command);
  return marked === undefined || (marked.output && option.name() === outputFlag);
}

function rootOf(command: Command): Command {
  return command.parent === null ? command : rootOf(command.parent);
}
