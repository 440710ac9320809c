import { type Command, InvalidArgumentError, Option } from "commander";

/** The flags of all commands that deploy. */
export type DeploymentFlags = {
  readonly type?: string;
  readonly message?: string;
  readonly wait?: number;
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
export const fullFlag = ["--full", "do not shorten long values at a terminal"] as const;

/** Adds these flags, of which `types` are the values of `--type`, the default first unless it is described. */
export function addDeploymentFlags(
  command: Command,
  types?: readonly DeploymentTypeName[],
  defaultType?: string,
): Command {
  return addTypeFlag(command, types, defaultType)
    .option("-m, --message <text>", "comment to keep with the revision")
    .option("--wait <seconds>", "end when the flows have run without failure for this time", parseSeconds)
    .option("--undo-on-failure", "deploy the previous flows again if these fail within --wait (by default 10 seconds)")
    .option("-y, --yes", "do not ask")
    .option(...fullFlag);
}

/** For commands that plan the deployment. */
export function addForceFlag(command: Command): Command {
  return command.option("--force", "without a question, deploy also flows that would not run or that lose credentials");
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

function parseSeconds(text: string): number {
  if (!/^\d{1,3}$/.test(text) || Number(text) > 600) {
    throw new InvalidArgumentError("It is a number of seconds, from 0 to 600.");
  }
  return Number(text);
}
