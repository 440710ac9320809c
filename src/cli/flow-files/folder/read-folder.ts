import type { FlowNode } from "../../../flows/configuration.ts";
import { CliFailure } from "../../failure.ts";
import { FlowFilesFailure } from "../failure.ts";
import type { FileValue, FlowFiles } from "../flow-files.ts";
import { collectProblems } from "../read-file.ts";
import { readIndex } from "./index-file.ts";
import { listFlowFiles } from "./list-files.ts";
import { readFolderFile } from "./read-folder-file.ts";
import { applyMoves, sortAsEditor } from "./order.ts";

/**
 * Reads a folder as `exportFolder` writes it, or any folder of files that each contain an array of nodes. Files that the index
 * does not name come after those that it names.
 */
export async function readFolder(folder: string): Promise<FlowFiles> {
  const index = await readIndex(folder);
  const names = await listFlowFiles(folder, index !== undefined);
  if (index === undefined && names.length === 0) {
    throw new CliFailure(
      `${folder}: has no files of flows (.yaml, .yml or .json): correct the path, or export flows to it`,
    );
  }
  const ranks = new Map(index?.files.map((name, rank) => [name, rank]));
  const sorted = names.toSorted((a, b) => (ranks.get(a) ?? ranks.size) - (ranks.get(b) ?? ranks.size));
  const contents = await collectProblems(sorted, async (name) => {
    const content = await readFolderFile(folder, name);
    const other = content.rev ?? content.credentials;
    if (other !== undefined) {
      const message = "only the nodes of a file in a folder are read: keep only the array of nodes";
      throw new FlowFilesFailure([{ file: other.source.file, ...other.source.positionOf(other.path), message }]);
    }
    return content.nodes;
  });
  const nodes = sortAsEditor(contents.flat(), nodeOf);
  return {
    nodes: applyMoves(nodes, (item) => nodeOf(item)?.id, index?.moved ?? new Map()),
    rev: undefined,
    credentials: undefined,
  };
}

function nodeOf({ value }: FileValue): FlowNode | undefined {
  const { id, type } = Object(value) as Partial<FlowNode>;
  return typeof id === "string" && typeof type === "string" ? (value as FlowNode) : undefined;
}
