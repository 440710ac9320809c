import { mediaTypeOf } from "../../http/media-type.ts";
import { isNdjson } from "../../protocols/rest/stream/framing.ts";
import { createJsonValues } from "./json-values.ts";

/** The text of one message or error in a stream. */
export type StreamDocument = {
  readonly text: string;
  readonly kind: "message" | "error";
  /** Whether `{"result": …}` and `{"error": …}` wrap the message or error; "unlessField": if the message has no field of that name. */
  readonly wrapping: "never" | "unlessField" | "always";
};

/** Splits a text that arrives in pieces. Each function throws an Error if the text is not complete or not valid. */
export type Splitter = {
  push(piece: string): StreamDocument[];
  end(): StreamDocument[];
};

/** Creates the splitter for the Content-Type of a stream; undefined if it is not that of a stream of JSON. */
export function createSplitter(contentType: string): Splitter | undefined {
  const mediaType = mediaTypeOf(contentType);
  if (mediaType === "text/event-stream") {
    return eventSplitter();
  }
  if (isNdjson(mediaType)) {
    return lineSplitter();
  }
  return mediaType === "application/json" || mediaType.endsWith("+json") ? valueSplitter() : undefined;
}

function eventSplitter(): Splitter {
  const parse = createEventParser();
  return {
    push: (piece) =>
      parse(piece).map(({ event, data }) => ({
        text: data,
        kind: event === "error" ? "error" : "message",
        wrapping: "never",
      })),
    end: () => [],
  };
}

function lineSplitter(): Splitter {
  let rest = "";
  const toDocuments = (lines: readonly string[]): StreamDocument[] =>
    lines.filter((line) => line.trim() !== "").map((text) => ({ text, kind: "message", wrapping: "unlessField" }));
  return {
    push(piece) {
      const lines = piece.split("\n");
      lines[0] = `${rest}${lines[0]}`;
      rest = lines.pop() ?? "";
      return toDocuments(lines);
    },
    end: () => toDocuments([rest]),
  };
}

/** An array, as Google and Envoy send it, or a value each line, as grpc-gateway and ASP.NET Core do. */
function valueSplitter(): Splitter {
  const values = createJsonValues();
  const toDocument = (text: string): StreamDocument => ({
    text,
    kind: "message",
    wrapping: values.isArray() ? "unlessField" : "always",
  });
  return {
    push: (piece) => values.push(piece).map(toDocument),
    end: () => values.end().map(toDocument),
  };
}

/** A server-sent event (WHATWG HTML, section 9.2). */
type ServerSentEvent = { readonly event: string; readonly data: string };

/** Creates a parser of an event stream that arrives in pieces; it returns the events that a piece completes. */
function createEventParser(): (piece: string) => ServerSentEvent[] {
  let text = "";
  let event = "";
  let data: string[] = [];
  let endsWithReturn = false;
  return (piece) => {
    const events: ServerSentEvent[] = [];
    // A carriage return ends a line. A line feed may follow it in the next piece.
    const lines = `${text}${endsWithReturn ? piece.replace(/^\n/, "") : piece}`.split(/\r\n|\n|\r/);
    endsWithReturn = piece === "" ? endsWithReturn : piece.endsWith("\r");
    text = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (data.length > 0) {
          events.push({ event, data: data.join("\n") });
        }
        event = "";
        data = [];
        continue;
      }
      const [, name, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
      if (name === "data") {
        data.push(value);
      } else if (name === "event") {
        event = value;
      }
    }
    return events;
  };
}
