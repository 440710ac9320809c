/** A server-sent event (WHATWG HTML, section 9.2). */
export type ServerSentEvent = { readonly event: string; readonly data: string };

/** Creates a parser of an event stream that arrives in pieces; it returns the events that a piece completes. */
export function createEventParser(): (piece: string) => ServerSentEvent[] {
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
