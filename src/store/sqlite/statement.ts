import type { DatabaseSync, SQLInputValue, SQLOutputValue, StatementSync } from "node:sqlite";

type Row = Record<string, SQLOutputValue>;
/** Named parameters in one object, or anonymous ones. */
type Values = readonly SQLInputValue[] | readonly [Record<string, SQLInputValue>];

export type Statement = {
  get(...values: Values): Row | undefined;
  all(...values: Values): Row[];
};

/** Prepares a statement, and prepares it again when the database was closed and opened in between. */
export function createStatement(db: DatabaseSync, sql: string): Statement {
  let statement = db.prepare(sql);

  function run<T>(use: (prepared: StatementSync) => T): T {
    try {
      return use(statement);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ERR_INVALID_STATE") {
        throw error;
      }
      statement = db.prepare(sql);
      return use(statement);
    }
  }

  return {
    get: (...values) => run((prepared) => prepared.get(...(values as SQLInputValue[]))),
    all: (...values) => run((prepared) => prepared.all(...(values as SQLInputValue[]))),
  };
}
