import type { JsonObject } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import type { LibraryService } from "../../gen/flowgate/v1/library_pb.ts";
import { originOf } from "../auth/caller.ts";
import { explainJsonLimit } from "../base/json-limit.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import { type DocumentStore, maxDetailsBytes } from "../store/document-store.ts";

const maxPathChars = 255;

/** The library of Node-RED's editor, which reads it on its own listener. */
export function libraryService(documents: Pick<DocumentStore, "put">): ServiceImpl<typeof LibraryService> {
  return {
    async setLibraryEntry({ type, path, content }, context) {
      if (path === "" || path.endsWith("/")) {
        throw new FlowgateError("invalid_argument", "path: must be the path of an entry, such as tools/greet.js");
      }
      assertEntry(type, path);
      const { text, details = {} } = content ?? { text: "" };
      const json = type === "flows" ? readFlows(text, details) : readDetails(details);
      const name = nameOf(type, path);
      const origin = originOf(context);
      const entry = { kind: "library_written", origin, subject: name.slice("library/".length) } as const;
      await documents.put({ name, details: json, content: text, by: origin.by }, entry);
      return {};
    },
  };
}

/** Reads the library, for Node-RED's editor. */
export function libraryReader(documents: Pick<DocumentStore, "find" | "list" | "listFolders">) {
  const folderOf = (type: string, path: string): string => {
    assertEntry(type, path);
    return path === "" ? `library/${type}/` : `library/${type}/${path.replace(/\/$/, "")}/`;
  };
  return {
    /** The content of an entry; of flows also by the name without `.json`. */
    async find(type: string, path: string): Promise<string | undefined> {
      assertEntry(type, path);
      const names = new Set([`library/${type}/${path}`, nameOf(type, path)]);
      for (const name of names) {
        const found = await documents.find(name);
        if (found !== undefined) {
          return found.content;
        }
      }
      return undefined;
    },
    folders: (type: string, path: string) => documents.listFolders(folderOf(type, path)),
    /** The first `documentsOfPage` entries in a folder, after the one with the name `after`. */
    async entries(type: string, path: string, after?: string) {
      const folder = folderOf(type, path);
      const page = await documents.list(folder, after && folder + after);
      return page.map(({ name, details }) => ({ name: name.slice(folder.length), details }));
    },
  };
}

/** Validates a type, and the path of an entry or a folder, which may be empty. Throws `invalid_argument`. */
function assertEntry(type: string, path: string): void {
  const parts = path.replace(/\/$/, "").split("/");
  const isValid =
    /^[\w-]{1,64}$/.test(type) &&
    path.length <= maxPathChars &&
    (path === "" || parts.every((part) => part !== "" && part !== "." && part !== ".." && !/\p{C}/u.test(part)));
  if (!isValid) {
    throw new FlowgateError(
      "invalid_argument",
      `the type must be a word, and the path must have names separated by slashes, at most ${maxPathChars} characters`,
    );
  }
}

/** The document of an entry, named as Node-RED names files. */
function nameOf(type: string, path: string): string {
  return `library/${type}/${type === "flows" && !path.endsWith(".json") ? `${path}.json` : path}`;
}

function readFlows(text: string, details: JsonObject): string {
  const error = explainJsonLimit(Buffer.from(text), "text:");
  if (error !== undefined) {
    throw error;
  }
  try {
    JSON.parse(text);
  } catch {
    throw new FlowgateError("invalid_argument", "text: must be flows as JSON");
  }
  if (Object.keys(details).length > 0) {
    throw new FlowgateError("invalid_argument", "details: must be absent for flows");
  }
  return "{}";
}

/** In lists, `fn` is the name of an entry. */
function readDetails(details: JsonObject): string {
  const json = JSON.stringify(Object.fromEntries(Object.entries(details).filter(([name]) => name !== "fn")));
  if (Buffer.byteLength(json) > maxDetailsBytes) {
    throw new FlowgateError(
      "payload_too_large",
      `the properties of an entry, apart from its text, may have at most ${maxDetailsBytes} bytes`,
    );
  }
  return json;
}
