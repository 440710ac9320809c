export const texts = {
  steps: { flows: "Flows", plan: "Plan", outcome: "Outcome", conflict: "Conflict" },
  given: (name: string, megabytes: string) => `${name}, ${megabytes} MB`,
  deploy: "Deploy",
  removesTabs: (names: readonly string[]) =>
    `Removes ${names.length === 1 ? "the tab" : `${names.length} tabs:`} ${names.slice(0, 10).join(", ")}${names.length > 10 ? " …" : ""}.`,
  observed: (seconds: number) => `observed for up to ${seconds} s`,
  conflict: { merge: "Merge and deploy" },
} as const;
