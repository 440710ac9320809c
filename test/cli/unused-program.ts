import type { Program } from "../../src/cli/program.ts";

const unused = (): never => {
  throw new Error("this is not expected to be called");
};

/** For what uses the definitions of the commands only. */
export const unusedProgram: Program = { openFlowgate: unused, migrateStore: unused, exit: unused };
