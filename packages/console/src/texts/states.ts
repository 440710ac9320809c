export const texts = {
  states: { unknown: "unknown" },
  /** By the number of their kind. */
  conditions: {
    1: "restarted",
    2: "nodes not started",
    3: "node failing",
    4: "missing types",
    5: "missing modules",
    6: "safe mode",
    7: "not started",
    8: "no runner",
    9: "replica lost",
    10: "disk nearly full",
  } as Readonly<Record<number, string>>,
  someone: "someone who was not signed in",
  byToken: (user: string, token: string) => `${user} (token ${token})`,
} as const;
