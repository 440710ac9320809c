import { type FlowNode, type FlowNodes } from "../../flow-view/flow-nodes.ts";
import { nameOf } from "../../flow-view/labels.ts";

export type Found = { readonly node: FlowNode; readonly name: string };

/** All text of each node, in lower case. Large flows have megabytes of it, so that it is collected once. */
export class NodeSearch {
  readonly #nodes: FlowNodes;
  #entries: readonly (Found & { readonly text: string })[] | undefined;

  constructor(nodes: FlowNodes) {
    this.#nodes = nodes;
  }

  /** The nodes that contain all of the words; those whose names do first. */
  find(query: string): readonly Found[] {
    const words = query
      .toLowerCase()
      .split(/\s+/)
      .filter((word) => word !== "");
    if (words.length === 0) {
      return [];
    }
    this.#entries ??= [...this.#nodes.all()].map((node) => this.#entryOf(node));
    const found = this.#entries.filter(({ text }) => words.every((word) => text.includes(word)));
    const isNamed = ({ name }: Found): boolean => words.every((word) => name.toLowerCase().includes(word));
    return [...found.filter(isNamed), ...found.filter((each) => !isNamed(each))];
  }

  #entryOf(node: FlowNode): Found & { readonly text: string } {
    const name = node.type === "tab" ? (this.#nodes.container(node.id)?.name ?? node.id) : nameOf(node, this.#nodes);
    const texts = [name, node.type, node.id];
    collectTexts(node.properties, texts);
    return { node, name, text: texts.join("\n").toLowerCase() };
  }
}

/** The texts and numbers in a value, not the names of properties, which nearly all nodes have. */
function collectTexts(value: unknown, texts: string[]): void {
  if (typeof value === "string" || typeof value === "number") {
    texts.push(String(value));
  } else if (typeof value === "object" && value !== null) {
    for (const part of Object.values(value)) {
      collectTexts(part, texts);
    }
  }
}
