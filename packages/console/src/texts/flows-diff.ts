export const texts = {
  summary: (added: number, removed: number, changed: number, moved: number) =>
    `${added} added, ${removed} removed, ${changed} changed${moved === 0 ? "" : ` (${moved} only moved)`}`,
  keys: "Keys: n for the next change, p for the previous one.",
  showAll: (rest: number) => `Show ${rest} more changes`,
  containers: { tab: "Tab", subflow: "Subflow", global: "Global configuration nodes" },
  changes: { added: "Added", removed: "Removed", changed: "Changed" },
  properties: (count: number) => (count === 1 ? "1 property" : `${count} properties`),
  output: (number: number) => `output ${number}`,
  codeBefore: (path: string) => `${path}, before`,
  codeAfter: (path: string) => `${path}, after`,
} as const;
