type Instruction = { readonly name: string; readonly value: string };

/** One build stage. */
export type Stage = {
  readonly from: string;
  readonly as: string | undefined;
  readonly instructions: readonly Instruction[];
};

export type Copy = { readonly from: string | undefined; readonly sources: readonly string[]; readonly target: string };

/** Removes comments, and joins continued lines. */
export function parseDockerfile(text: string): Stage[] {
  const lines = text
    .replaceAll(/^#.*\n/gm, "")
    .replaceAll(/\\\n\s*/g, "")
    .split("\n")
    .filter((line) => line.trim() !== "");
  const stages: { from: string; as: string | undefined; instructions: Instruction[] }[] = [];
  for (const line of lines) {
    const [, name = "", value = ""] = /^([A-Z]+)\s+(.*)$/.exec(line) ?? [];
    if (name === "FROM") {
      const [from = "", , as] = value.split(/\s+/);
      stages.push({ from, as, instructions: [] });
    } else {
      stages.at(-1)?.instructions.push({ name, value });
    }
  }
  return stages;
}

export function parseCopy(value: string): Copy {
  const words = value.split(/\s+/);
  const from = words.find((word) => word.startsWith("--from="))?.slice("--from=".length);
  const paths = words.filter((word) => !word.startsWith("--"));
  return { from, sources: paths.slice(0, -1), target: paths.at(-1) ?? "" };
}

/** The argument of the last instruction of this name. */
export function last({ instructions }: Stage, name: string): string | undefined {
  return instructions.findLast((instruction) => instruction.name === name)?.value;
}

/** The problems of a Dockerfile. `context` are the paths that .dockerignore includes. */
export function findProblems(text: string, context: ReadonlySet<string>): string[] {
  const stages = parseDockerfile(text);
  const image = stages.at(-1);
  if (image === undefined || stages.length < 2) {
    return ["there is one stage only: what builds would be in the image"];
  }
  const problems: string[] = [];
  const known = new Set(stages.map(({ as }) => as));
  const instructions = stages.flatMap((stage) => stage.instructions);
  for (const { from } of stages) {
    if (!/:\d+\.\d+/.test(from)) {
      problems.push(`${from} is not pinned to a version`);
    }
    if (!from.startsWith("node:")) {
      problems.push(`${from} has no libatomic1, without which Node 25 and later do not start`);
    }
  }
  for (const { name, value } of instructions) {
    if (name === "ADD") {
      problems.push(`ADD ${value}: it unpacks and downloads; COPY does neither`);
    }
    if (/secret|password|token/i.test(value) && (name === "ENV" || name === "ARG")) {
      problems.push(`${name} ${value}: it would stay in the image`);
    }
    if (name !== "COPY") {
      continue;
    }
    const { from, sources } = parseCopy(value);
    if (from !== undefined && !known.has(from)) {
      problems.push(`COPY ${value}: there is no stage ${from}`);
    }
    for (const source of from === undefined ? sources : []) {
      if (!context.has(source)) {
        problems.push(`COPY ${value}: ${source} is missing, or ignored`);
      }
    }
  }
  const user = last(image, "USER");
  if (user === undefined || !/^[1-9]\d*:[1-9]\d*$/.test(user)) {
    problems.push(`USER ${user ?? "root"}: it must be the number of one who is not root`);
  }
  const afterUser = image.instructions.slice(image.instructions.findLastIndex(({ name }) => name === "USER") + 1);
  if (afterUser.some(({ name }) => name === "RUN" || name === "COPY")) {
    problems.push("the service's user could change what comes after USER");
  }
  if (!(last(image, "ENTRYPOINT") ?? "").startsWith("[")) {
    problems.push("a shell would be process 1, and keep the signals");
  }
  return problems;
}
