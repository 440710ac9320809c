import { mediaTypeOf } from "../../http/media-type.ts";
import { isNdjson } from "../../stream/framing.ts";
import { createEventParser } from "./events.ts";
import { createJsonValues } from "./json-values.ts";

/** A document of a stream. */
export type Frame = {
  readonly text: string;
  readonly kind: "message" | "error";
  /** A message may be wrapped as `{"result": …}`, and an error may be a message `{"error": …}`. */
  readonly wrapping: "none" | "possible" | "likely";
};

/** Splits a text that arrives in pieces. Each function throws an Error if the text is not complete or not valid. */
export type Splitter = {
  push(piece: string): Frame[];
  end(): Frame[];
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
        wrapping: "none",
      })),
    end: () => [],
  };
}

function lineSplitter(): Splitter {
  let rest = "";
  const toFrames = (lines: readonly string[]): Frame[] =>
    lines.filter((line) => line.trim() !== "").map((text) => ({ text, kind: "message", wrapping: "possible" }));
  return {
    push(piece) {
      const lines = piece.split("\n");
      lines[0] = `${rest}${lines[0]}`;
      rest = lines.pop() ?? "";
      return toFrames(lines);
    },
    end: () => toFrames([rest]),
  };
}

/** An array, as Google and Envoy send it, or a value each line, as grpc-gateway and ASP.NET Core do. */
function valueSplitter(): Splitter {
  const values = createJsonValues();
  const toFrame = (text: string): Frame => ({
    text,
    kind: "message",
    wrapping: values.isArray() ? "possible" : "likely",
  });
  return {
    push: (piece) => values.push(piece).map(toFrame),
    end: () => values.end().map(toFrame),
  };
}
