import { concatBytes } from "#platform/bytes";
import { RequestError } from "../../../http/request-error.ts";

/** The text of one message in a stream. */
export type StreamDocument = {
  readonly bytes: Uint8Array;
  /** Counted from 1. */
  readonly number: number;
};

/** Collects the pieces of one document after another. */
export type DocumentCollector = {
  /** Throws a RequestError of status 413 as soon as a document exceeds the limit. */
  readonly append: (piece: Uint8Array) => void;
  /** Ends the document, and begins the next one. */
  readonly finish: () => StreamDocument;
};

/** `kind` is the name of a document in errors. */
export function createDocumentCollector(kind: "line" | "item", maxBytes: number): DocumentCollector {
  let pieces: Uint8Array[] = [];
  let length = 0;
  let number = 1;
  return {
    append(piece) {
      length += piece.length;
      if (length > maxBytes) {
        throw new RequestError(413, "payload_too_large", `${kind} ${number}: longer than ${maxBytes} bytes`);
      }
      pieces.push(piece);
    },
    finish() {
      const bytes = pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : concatBytes(pieces);
      const document = { bytes, number };
      pieces = [];
      length = 0;
      number++;
      return document;
    },
  };
}
