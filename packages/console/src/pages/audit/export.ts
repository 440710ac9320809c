import { toJson } from "@bufbuild/protobuf";
import { type AuditEntry, AuditEntrySchema } from "@flowgate/client";
import { nameOfKind } from "./filters.ts";

export function formatEntry(entry: AuditEntry): string {
  const json = toJson(AuditEntrySchema, entry) as Record<string, unknown>;
  return `${JSON.stringify({ ...json, kind: nameOfKind(entry.kind) })}\n`;
}

/** How much text is in the memory of the page, before the browser gets it. */
const chunkChars = 1_000_000;

/**
 * Reads entries into a file. The browser keeps its parts, on the disk if they are large, so that the page does not need memory for all
 * entries.
 */
export async function writeExport(
  responses: AsyncIterable<{ readonly entry?: AuditEntry | undefined }>,
  onProgress: (entries: number) => void,
): Promise<Blob> {
  const parts: Blob[] = [];
  let text = "";
  let entries = 0;
  const flush = (): void => {
    parts.push(new Blob([text]));
    text = "";
    onProgress(entries);
  };
  for await (const { entry } of responses) {
    if (entry !== undefined) {
      text += formatEntry(entry);
      entries += 1;
    }
    if (text.length >= chunkChars) {
      flush();
    }
  }
  flush();
  return new Blob(parts, { type: "application/x-ndjson" });
}
