import { Argument, type Command, InvalidArgumentError, Option } from "commander";

/** The seconds for which deployments wait by default, so that an error that they cause at once is part of their outcome. */
export const defaultWaitSeconds = 2;

/** The flags of all commands that deploy. */
export type DeploymentFlags = {
  readonly type?: string;
  readonly message?: string;
  readonly wait?: number;
  readonly maxErrors?: number;
  readonly undoOnFailure?: true;
  readonly yes?: true;
  readonly force?: true;
};

/** Which nodes restart. */
export const restarted = {
  full: "all",
  nodes: "the changed ones",
  flows: "the changed ones and those wired to them",
  reload: "all, with the stored flows",
} as const;

export type DeploymentTypeName = keyof typeof restarted;

/** The flag of all commands that show differences. */
export const fullFlag = ["--full", "do not shorten long values"] as const;

/** Adds these flags, of which `types` are the values of `--type`, the default first unless it is described. */
export function addDeploymentFlags(
  command: Command,
  types?: readonly DeploymentTypeName[],
  defaultType?: string,
): Command {
  const described = addTypeFlag(command, types, defaultType).option(
    "-m, --message <text>",
    "comment to keep with the revision",
  );
  return addWaitFlags(described, defaultWaitSeconds)
    .option("-y, --yes", "do not ask")
    .option(...fullFlag);
}

/** The flags that say when flows have failed, and what happens then. */
export function addWaitFlags(command: Command, byDefault: number): Command {
  return command
    .option(
      "--wait <seconds>",
      `end when the flows have run without failure for this time; 0: when they have started; by default ${byDefault}`,
      parseSeconds,
    )
    .option(
      "--max-errors <n>",
      "fail if changed nodes, or nodes behind them, log more errors than this within --wait (by default 10 seconds); by default 0",
      parseErrorCount,
    )
    .option("--undo-on-failure", "deploy the previous flows again if these fail within --wait (by default 10 seconds)");
}

/** For commands that plan the deployment. */
export function addForceFlag(command: Command): Command {
  return command.option(
    "--force",
    "without a question, deploy also flows that would not run, that lose credentials, or that remove all tabs or more than half of the nodes",
  );
}

export function addTypeFlag(
  command: Command,
  types: readonly DeploymentTypeName[] = ["full", "nodes", "flows"],
  defaultType: string | undefined = types[0],
): Command {
  const description = types.map((type) => `${type} (${restarted[type]})`).join(", ");
  return command.addOption(
    new Option("--type <type>", `which nodes restart: ${description}; by default ${defaultType}`).choices(types),
  );
}

/** Returns a parser of whole numbers. */
function numberOf(what: string, min: number, max: number): (text: string) => number {
  return (text) => {
    const number = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
    if (!(number >= min && number <= max)) {
      throw new InvalidArgumentError(`It must be a whole number${what} from ${min} to ${max}.`);
    }
    return number;
  };
}

const parseSeconds = numberOf(" of seconds", 0, 600);
const parseErrorCount = numberOf(" of errors", 0, 999_999_999);

/** The flags of commands that read flows from files. */
export type FlowsFlags = { readonly rev?: string; readonly credentials?: string; readonly merge?: true };

export function addFlowsFlags(command: Command, argument: "<file...>" | "[file...]"): Command {
  return command
    .argument(argument, "files or folders with the whole configuration, JSON or YAML; - for stdin")
    .option("--rev <rev>", `fail if another revision is active: ${revisionNames}`)
    .option("--merge", "with --rev: merge with what was deployed since, unless both changed the same nodes")
    .option("--credentials <file>", "credentials by node id, or encrypted as in Node-RED's flows_cred.json");
}

export const revisionNames = "a rev or its beginning, @ for the active one, @~2 for two before";

export function revisionArgument(): Argument {
  return new Argument("<rev>", `revision: ${revisionNames}`);
}

/** As the API names them, in the order of its documentation. */
const eventKinds = [
  "deployment",
  "runtime_state",
  "node_status",
  "node_error",
  "debug",
  "log",
  "module",
  "token",
  "users",
  "proposal",
  "editor_message",
  "health",
] as const;

/** The most severe one first. */
const logLevels = ["fatal", "error", "warn", "info", "debug", "trace"] as const;

/** The flags by which commands select events. */
export type EventFlags = {
  readonly kinds?: readonly (typeof eventKinds)[number][];
  readonly tab?: string;
  readonly node?: string;
  readonly level?: (typeof logLevels)[number];
};

/** `kinds`: those that the command can show. */
export function addEventFlags(command: Command, kinds: readonly (typeof eventKinds)[number][] = eventKinds): Command {
  const isKind = (word: string) => kinds.some((kind) => kind === word);
  const parseKinds = (text: string, previous: readonly string[] = []): string[] => {
    const words = text.split(",").map((word) => word.trim().replaceAll("-", "_"));
    const unknown = words.find((word) => !isKind(word));
    if (unknown !== undefined) {
      throw new InvalidArgumentError(`There is no kind ${JSON.stringify(unknown)}, only ${kinds.join(", ")}.`);
    }
    return [...previous, ...words];
  };
  return command
    .addOption(
      new Option("--kinds <kinds>", "only these kinds, separated by commas")
        // The shell completes the first one. The parser takes several.
        .choices(kinds)
        .argParser(parseKinds),
    )
    .option("--tab <tab>", "only of this tab, by its label or id")
    .option("--node <node>", "only of nodes with this id, name or type")
    .addOption(
      new Option(
        "--level <level>",
        "only logs and errors of this level or a more severe one; without --kinds, no other events",
      ).choices(logLevels),
    );
}

/** The kinds that the service records. */
export const recordedKinds = eventKinds.filter(
  (kind) => kind !== "node_status" && kind !== "debug" && kind !== "editor_message",
);

const secondsOf = { s: 1, m: 60, h: 3600, d: 86_400 } as const;

/** Parses a duration such as `30d`, `12h`, `15m` or `90s`, into seconds. */
export function parseDuration(text: string): number {
  const [, count = "", unit = ""] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const seconds = Number(count) * (secondsOf[unit as keyof typeof secondsOf] ?? Number.NaN);
  if (!(seconds > 0)) {
    throw new InvalidArgumentError("It must be a duration such as 30d, 12h, 15m or 90s.");
  }
  return seconds;
}

/** Parses a time, or the duration since then. */
export function parseTime(text: string): Date {
  if (/^\d+[smhd]$/.test(text)) {
    return new Date(Date.now() - parseDuration(text) * 1000);
  }
  const time = new Date(text);
  if (!/^\d{4}-\d{2}-\d{2}/.test(text) || Number.isNaN(time.getTime())) {
    throw new InvalidArgumentError(
      "It must be a time such as 2026-03-01T09:30:00Z, or a duration before now such as 24h.",
    );
  }
  return time;
}

/** Parses the number of items to list. */
export const parseLimit = numberOf("", 1, 9_999_999);
