export const texts = {
  drawing: (name: string) =>
    `Drawing of ${name}. Arrow keys move it, + and - zoom, 0 shows all. The list of nodes has the same content.`,
  minimap: "Overview of the drawing",
  nodeCount: (count: number) => (count === 1 ? "1 node" : `${count} nodes`),
  more: (count: number) => `${count} more: use the filter`,
  errors: (count: number) => (count === 1 ? "1 error" : `${count} errors`),
  position: (index: number, count: number) => `${index} of ${count}`,
  before: "Before",
  after: "After",
  changeNames: { added: "added", removed: "removed", changed: "changed", moved: "moved", rewired: "rewired" },
} as const;
