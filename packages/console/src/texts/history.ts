export const texts = {
  active: "Active",
  pinned: "Pinned",
  filters: { any: "Any" },
  size: (nodes: number, bytes: string) => `${nodes} ${nodes === 1 ? "node" : "nodes"}, ${bytes}`,
  origin: (address: string, protocol: string) => (address === "" ? protocol : `${address}, by ${protocol}`),
  editMessage: "Edit message",
  undo: "Undo",
  restore: "Restore",
  by: "by",
  onFailureHint: "They fail if they do not start, or if nodes log errors in the first 10 seconds.",
  propose: "Propose it",
  proposalHint: "A proposal contains no credentials: nodes keep their current ones.",
} as const;
