import { Argument } from "commander";

export const revisionNames = "a rev or its beginning, @ for the active one, @~2 for two before";

export function revisionArgument(): Argument {
  return new Argument("<rev>", `revision: ${revisionNames}`);
}
